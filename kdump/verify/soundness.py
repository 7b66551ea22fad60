"""Which index files of a partition are sound as they are, whoever wrote them, and so need not be replaced."""

from __future__ import annotations

import os

from kdump.findings.catalogue import INFO
from kdump.formats.names import INDEX_KINDS, parse_file_name
from kdump.storage.partition import PartitionLog
from kdump.verify.options import Options
from kdump.verify.run import Verification


def unsound_indexes(log: PartitionLog) -> frozenset[str]:
    """Return the names of the index files, present or missing, that `kdump verify` finds an error or a warning in.

    Any other is sound and needs no replacement, even where a rebuild would give other bytes: old releases, followers
    and the cleaner write entries of their own (see kdump.verify.offset_index and kdump.verify.time_index). What a
    broker itself rebuilds at its next start is no finding. Raises OSError.
    """
    findings = Verification(Options(now=0)).run([log.path])
    found = {os.path.basename(finding.path) for finding in findings if finding.severity != INFO}
    return frozenset(name for name in found if parse_file_name(name).kind in INDEX_KINDS)
