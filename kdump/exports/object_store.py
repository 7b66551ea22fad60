"""An export in an object store: what was written into a local directory goes up, `_SUCCESS` last.

Large files go up in several parts at once. What has arrived is noted in the directory, so that a run that repeats an
upload sends only what is missing or has changed. Needs obstore (`pip install 'kafka-kdump[object-stores]'`), which
takes credentials and endpoints from the environment, as its documentation says.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kdump.disk.durable import append_file, remove_tree
from kdump.disk.reading import open_stream
from kdump.disk.rights import rights_of
from kdump.disk.unpacked import temporary_directory
from kdump.errors import KdumpError, RefusedError
from kdump.exports.journal import FOLDER, SUCCESS, files_of

_SCHEMES = re.compile(r"(?:s3|s3a|gs|az|azure|abfs|abfss|adl)://[^/]")
_ACCOUNT = "uploaded"


class StoreError(KdumpError):
    """What an object store, or its library, says against an upload."""


class Uploaded(NamedTuple):
    """What an upload came to: files and bytes that were sent, and files that were there already."""

    files: int
    bytes: int
    already: int


def is_object_store(target: str) -> bool:
    """Return whether a target of an export is the URL of an object store."""
    return _SCHEMES.match(target) is not None


def check_library() -> None:
    """Raise StoreError where obstore is not installed."""
    _library()


def upload(folder: str, url: str) -> Uploaded:
    """Send the files of an export's directory to a store, and `_SUCCESS` if it is whole.

    Raises RefusedError where something else is under the URL, StoreError, OSError.
    """
    library = _library()
    with _errors(url):
        store = library.store.from_url(url)
        there = {each["path"]: each["size"] for page in library.list(store) for each in page}
    files = {path: _state(os.path.join(folder, path)) for path in files_of(folder)}
    account = _Account(folder, url)
    strangers = sorted(there.keys() - files.keys() - account.sent.keys() - {SUCCESS})
    if strangers:
        raise RefusedError(f"{url} is not empty: {strangers[0]} is not of this export; give another place")
    left = [path for path, state in files.items() if account.sent.get(path) != state or there.get(path) != state[0]]
    stale = sorted(there.keys() & account.sent.keys() - files.keys())
    is_whole = os.path.exists(os.path.join(folder, SUCCESS))
    with _errors(url):
        if SUCCESS in there and (left or stale or not is_whole):
            library.delete(store, SUCCESS)
        if stale:
            library.delete(store, stale)
        for path in left:
            with open_stream(os.path.join(folder, path)) as file:
                library.put(store, path, file)
            account.add(path, files[path])
        if is_whole:
            library.put(store, SUCCESS, b"")
    return Uploaded(len(left), sum(files[path][0] for path in left), len(files) - len(left))


class Staging:
    """The directory of an export that is to be sent; `is_done`: no later run will need what is in it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_done = False


@contextmanager
def staging_directory(path: str | None, kept: Callable[[str], object]) -> Iterator[Staging]:
    """Give a directory to stage an export in: that at `path`, or a temporary one.

    A temporary one is removed afterwards, unless a later run can resume with what is in it: `kept` hears of that.
    """
    staging = Staging(path or temporary_directory("kdump-export-"))
    try:
        yield staging
    finally:
        if path is None and not staging.is_done and os.listdir(staging.path):
            kept(staging.path)
        elif path is None:
            remove_tree(staging.path, ignore_errors=True)


State = tuple[int, int]
"""Size and time of change (ns) of a file."""


def _state(path: str) -> State:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


class _Account:
    """What has arrived at a URL, as lines of JSON in the export's directory."""

    def __init__(self, folder: str, url: str) -> None:
        self.sent: dict[str, State] = {}
        self._path = os.path.join(folder, FOLDER, _ACCOUNT)
        self._url = url
        try:
            with open_stream(self._path) as lines:
                for line in lines:
                    self._take(line)
        except FileNotFoundError:
            pass

    def _take(self, line: bytes) -> None:
        try:
            url, path, size, modified = json.loads(line)
        except ValueError:  # a killed run may leave half a line
            return
        if url == self._url:
            self.sent[path] = (size, modified)

    def add(self, path: str, state: State) -> None:
        """Note a file that has arrived. Raises OSError."""
        line = f"{json.dumps([self._url, path, *state])}\n"
        append_file(self._path, (line.encode(),), rights_of([os.path.dirname(self._path)]))


@contextmanager
def _errors(url: str) -> Iterator[None]:
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # of many classes, by the store and what is wrong
        raise StoreError(f"{url}: {' '.join(str(error).split())[:500]}") from None


def _library() -> Any:
    try:
        import obstore
        import obstore.store
    except ImportError as error:
        raise StoreError(
            f"writing to an object store needs obstore ({error}): pip install 'kafka-kdump[object-stores]'"
        ) from None
    return obstore
