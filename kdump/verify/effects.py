"""What a broker does about a finding, where that depends on the log directory that it is in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kdump.findings.finding import Finding
from kdump.findings.kind import GOES_OFFLINE, REFUSES
from kdump.storage.directory import holds_metadata_log


class Effects:
    """Knows which log directories a broker cannot go on without."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def of_all(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield the findings; what takes a directory offline ends the process where the metadata log is in it."""
        for finding in findings:
            if finding.broker == GOES_OFFLINE and self._is_needed(finding.path):
                yield finding._replace(effect=REFUSES)
            else:
                yield finding

    def _is_needed(self, path: str) -> bool:
        """Return whether the metadata log is in the directory of a file, of a partition, or of a partition's file."""
        folder = os.path.dirname(os.path.abspath(path))
        return self._has_log(folder) or self._has_log(os.path.dirname(folder))

    def _has_log(self, folder: str) -> bool:
        if folder not in self._known:
            try:
                self._known[folder] = holds_metadata_log(folder)
            except OSError:
                self._known[folder] = True  # nobody knows: of the two effects it is the worse one
        return self._known[folder]
