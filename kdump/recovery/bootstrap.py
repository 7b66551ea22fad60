"""What a broker makes of the bootstrap.checkpoint beside the cluster's metadata log, which it reads at every start."""

from __future__ import annotations

from kdump.disk.reading import is_directory, is_there
from kdump.errors import KAFKA, RUNTIME, LoadError
from kdump.recovery.outcome import Failure
from kdump.recovery.raft_records import RaftRecord, raft_records
from kdump.releases import METADATA_VERSION


def bootstrap_failure(path: str) -> Failure | None:
    """Return what ends the process of a broker that reads this bootstrap.checkpoint; None where nothing does.

    (BootstrapDirectory.) Without the file it goes by its own settings. CRCs are not looked at, and an incomplete end
    is skipped. Raises OSError.
    """
    if not is_there(path):
        return None
    if is_directory(path):
        return Failure(KAFKA, "java.io.IOException: Is a directory", path, offline=False)
    try:
        features = {_feature(record) for record in raft_records(path, checks_crcs=False)}  # all are read
    except LoadError as error:
        return Failure(error.exception, str(error), error.file, offline=False)
    if METADATA_VERSION in features:
        return None
    text = (
        "No FeatureLevelRecord for metadata.version was found in the bootstrap metadata from the binary bootstrap"
        f" metadata file: {path}"
    )
    return Failure(RUNTIME, text, path, offline=False)


def _feature(record: RaftRecord) -> str | None:
    decoded = record.decoded
    return decoded.fields["name"] if decoded is not None and decoded.name == "FeatureLevelRecord" else None
