"""Everything that the storage core raises.

Each message says what was found and, where a file is at hand, in which file and at which byte position. Where Kafka
has a text of its own for the fault (shared vocabulary of operators), the message is that text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from errno import EIO, ENOMEM
from operator import index
from types import UnionType
from typing import NamedTuple

_LONG_BITS = 63
"""Those of a Java long's absolute value: Kafka has no larger whole numbers."""


def check_number(
    name: str,
    value: object,
    minimum: float | None = None,
    maximum: float | None = None,
    *,
    may_be_none: bool = False,
) -> None:
    """Raise TypeError for an argument that is no number, ValueError for one below `minimum` or above `maximum`.

    It is a whole number, and fits into a Java long, unless `minimum` is a float.
    """
    if value is None and may_be_none:
        return
    is_whole = not isinstance(minimum, float)
    is_number = hasattr(value, "__index__" if is_whole else "__float__") and not isinstance(value, bool)
    is_inside = is_number and (minimum is None or value >= minimum) and (maximum is None or value <= maximum)  # type: ignore[operator]
    if is_inside and not (is_whole and index(value).bit_length() > _LONG_BITS):  # type: ignore[arg-type]
        return
    bounds = ""
    if minimum is not None:
        bounds = f", {minimum:g} or more" if maximum is None else f" from {minimum:g} to {maximum:g}"
    elif is_number:
        bounds = " of 64 bits"
    error = ValueError if is_number else TypeError
    raise error(f"{name} is {value!r}: expected a {'whole ' if is_whole else ''}number{bounds}")


def check_type(name: str, value: object, kind: type | UnionType, *, may_be_none: bool = False) -> None:
    """Raise TypeError for an argument that is of another type."""
    if not (isinstance(value, kind) or (value is None and may_be_none)):
        words = str(kind).removeprefix("<class '").removesuffix("'>")
        raise TypeError(f"{name} is {value!r}: expected {words}")


def check_truths(**given: object) -> None:
    """Raise TypeError for an argument that is neither true nor false: "no" would count as yes."""
    for name, value in given.items():
        check_type(name, value, bool)


def check_word(name: str, value: object, known: Iterable[str], *, may_be_none: bool = False) -> None:
    """Raise ValueError for an argument that is none of the known words."""
    words = [str(word) for word in known]
    if value not in words and not (value is None and may_be_none):
        raise ValueError(f"{name} is {value!r}: expected {', '.join(words)}")


def check_callable(name: str, value: object, *, may_be_none: bool = False) -> None:
    """Raise TypeError for an argument that cannot be called."""
    if not (callable(value) or (value is None and may_be_none)):
        raise TypeError(f"{name} is {value!r}: expected a function")


def check_several(name: str, values: object, kind: type | UnionType = object, *, may_be_none: bool = False) -> None:
    """Raise TypeError for an argument that is not several things, each of a type.

    One text instead of several would be taken for its letters. What can be iterated over but once is left as it is.
    """
    if values is None and may_be_none:
        return
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        hint = f", as in [{values!r}]" if isinstance(values, str) else ""
        raise TypeError(f"{name} is {values!r}: expected several{hint}")
    for value in values if isinstance(values, Collection) else ():
        check_type(name, value, kind)


class OnError(StrEnum):
    """What becomes of what cannot be read or parsed."""

    RAISE = "raise"
    SKIP = "skip"
    YIELD = "yield"

    @classmethod
    def _missing_(cls, value: object) -> None:
        """Raise ValueError that names the argument."""
        check_word("errors", value, cls)

    @classmethod
    def beside_one_result(cls, errors: str) -> OnError:
        """Return the policy of what gives nothing that a problem could stand beside. Raises ValueError."""
        if (found := cls(errors)) is cls.YIELD:
            raise ValueError('errors is "raise" or "skip" here: there is one result')
        return found


class KdumpError(Exception):
    """Base of all errors that kdump raises on purpose; its text is fit to be shown to an operator."""


class CorruptRecordError(KdumpError):
    """The framing or the checksum of an entry of a log is wrong (Kafka: CorruptRecordException)."""


class InvalidRecordError(KdumpError):
    """The content of a batch breaks the record format although its frame holds (Kafka: InvalidRecordException)."""


class CodecError(KdumpError):
    """A compressed payload cannot be decompressed, or would grow past the limit."""


class CodecMissingError(CodecError):
    """The library that a codec needs is not installed: nothing is known of the payload."""


class CodecLimitError(CodecError):
    """The payload grows past the limit, or past the memory that there is: it may be sound."""


class CodecMemoryError(CodecLimitError):
    """There is not enough memory for the payload, which says nothing of the batch."""


class UnknownCodecError(CodecError):
    """The attributes name a codec id that no Kafka release knows (5 to 7)."""


class CorruptIndexError(KdumpError):
    """An index file breaks its format (Kafka: CorruptIndexException)."""


class CorruptSnapshotError(KdumpError):
    """A producer snapshot breaks its format or its checksum (Kafka: CorruptSnapshotException)."""


IO_EXCEPTION = "java.io.IOException"


class CheckpointError(KdumpError):
    """A checkpoint or another text file beside the segments cannot be parsed.

    `exception` is the class in which Kafka's reader ends, with its package, and `kafka_text` that exception's message:
    a broker takes an IOException for a fault of the disk, and nobody catches most others.
    """

    def __init__(self, text: str, exception: str = IO_EXCEPTION, kafka_text: str | None = None) -> None:
        super().__init__(text)
        self.exception = exception
        self.kafka_text = text if kafka_text is None else kafka_text

    @property
    def is_io(self) -> bool:
        """Whether Kafka's reader ends in an IOException."""
        return self.exception == IO_EXCEPTION


class NameFormatError(KdumpError):
    """A file or directory name is not one that Kafka gives; `text` says what is wrong with `path`, if it is given."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(f"{path}: {text}" if path else text)
        self.text = text
        self.path = path


class HoldsLogDirectoriesError(NameFormatError):
    """A directory is not a log directory but holds some, such as a broker's disks: those `inside`."""

    def __init__(self, path: str, inside: Sequence[str]) -> None:
        super().__init__(f"not a log directory; it holds {len(inside)}: {' '.join(inside)}", path)
        self.inside = tuple(inside)


class RefusedError(KdumpError):
    """A safety check: what was asked for could harm data that somebody is using."""


class ArgumentError(RefusedError):
    """A safety check of what an argument says: `argument` is its name, which commands have as an option."""

    def __init__(self, argument: str, value: str, text: str) -> None:
        super().__init__(f"{argument} is {value!r}: {text}")
        self.argument = argument
        self.value = value
        self.text = text


class InUseError(RefusedError):
    """Somebody writes what is about to be changed."""


class BrokerRunsError(InUseError):
    """A broker is running on a log directory: `process` holds its lock (None: the system does not say which)."""

    def __init__(self, log_directory: str, process: int | None, lock: str) -> None:
        holder = "another process" if process is None else f"process {process}"
        super().__init__(f"a broker is running on {log_directory} ({holder} holds {lock}).")
        self.log_directory = log_directory
        self.process = process


class KdumpRunsError(InUseError):
    """Another kdump is changing a log directory: `process` holds its lock."""

    def __init__(self, log_directory: str, process: int, lock: str) -> None:
        super().__init__(f"another kdump is changing {log_directory} (process {process} holds {lock}).")
        self.log_directory = log_directory
        self.process = process


class ConfigError(KdumpError):
    """A property has a value that Kafka would not take: `name`, where it is one."""

    def __init__(self, text: str, name: str | None = None) -> None:
        super().__init__(text)
        self.name = name


class CleaningError(KdumpError):
    """The cleaner cannot get on: damage, or what makes Kafka's own cleaner give the partition up."""


class NewerError(KdumpError):
    """Something was written by a release of Kafka that is newer than this kdump: nothing is wrong with it."""


class Problem(NamedTuple):
    """What cannot be read or does not fit: the file, the byte position of the batch (None: all of it), what is wrong.

    `is_unreadable` where the system would not give the bytes, in contrast to bytes that are damaged; `is_missing` where
    that is because there is no such file any more. `is_newer` where a newer release of Kafka wrote what kdump does not
    know: nothing is wrong there, and nobody may call it damage.
    """

    path: str
    position: int | None
    text: str
    is_unreadable: bool = False
    is_missing: bool = False
    is_newer: bool = False

    @classmethod
    def unreadable(cls, path: str, error: OSError | KdumpError) -> Problem:
        """Return the problem of a file or directory that the system does not give, or that ends all reading of it."""
        if isinstance(error, KdumpError):
            return cls(path, None, str(error), is_unreadable=True)
        is_missing = isinstance(error, FileNotFoundError)
        text = error.strerror or str(error)
        return cls(error.filename or path, None, text, is_unreadable=True, is_missing=is_missing)

    @classmethod
    def failed(cls, path: str, error: Exception) -> Problem:
        """Return the problem that an error is which ended the reading of a file or directory."""
        return cls.unreadable(path, error) if isinstance(error, OSError) else cls(path, None, str(error))

    @classmethod
    def of_record(cls, path: str, position: int, offset: int, error: KdumpError) -> Problem:
        """Return the problem of the record at an absolute offset."""
        return cls(path, position, f"offset {offset}: {error}", is_newer=isinstance(error, NewerError))


Report = Callable[[Problem], object]


class ProblemError(KdumpError):
    """A problem that was met where problems are raised."""

    def __init__(self, problem: Problem) -> None:
        """`problem` is what was met."""
        self.problem = problem
        place = "" if problem.position is None else f"byte {problem.position}: "
        super().__init__(f"{problem.path}: {place}{problem.text}")


# Exceptions in which Kafka's log loading or its dump tool ends, or which they handle on their way.
_COMMON = "org.apache.kafka.common"

CORRUPT_RECORD = f"{_COMMON}.errors.CorruptRecordException"
INVALID_RECORD = f"{_COMMON}.InvalidRecordException"
INVALID_TXN_STATE = f"{_COMMON}.errors.InvalidTxnStateException"
INVALID_OFFSET = f"{_COMMON}.errors.InvalidOffsetException"
OFFSET_OVERFLOW = f"{_COMMON}.errors.LogSegmentOffsetOverflowException"
STORAGE = f"{_COMMON}.errors.KafkaStorageException"
KAFKA = f"{_COMMON}.KafkaException"
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
CONFIG_EXCEPTION = f"{_COMMON}.config.ConfigException"
UNSUPPORTED_VERSION = f"{_COMMON}.errors.UnsupportedVersionException"
ILLEGAL_STATE = "java.lang.IllegalStateException"
RUNTIME = "java.lang.RuntimeException"
NULL_POINTER = "java.lang.NullPointerException"
NUMBER_FORMAT = "java.lang.NumberFormatException"
NO_SUCH_ELEMENT = "java.util.NoSuchElementException"
NO_SUCH_FILE = "java.nio.file.NoSuchFileException"
UNCHECKED_IO = "java.io.UncheckedIOException"
FILE_NOT_FOUND = "java.io.FileNotFoundException"
EOF = "java.io.EOFException"
BUFFER_OVERFLOW = "java.nio.BufferOverflowException"
BUFFER_UNDERFLOW = "java.nio.BufferUnderflowException"

_TAKES_DIRECTORY_OFFLINE = frozenset({STORAGE, IO_EXCEPTION, NO_SUCH_FILE, FILE_NOT_FOUND})


class JavaError(KdumpError):
    """An exception of the JVM that ends Kafka's dump tool, by its class name.

    `text` is None where it has none; `causes` are those behind it, each as its class and text.
    """

    def __init__(self, java_class: str, text: str | None = None, *causes: str) -> None:
        super().__init__(text or "")
        self.java_class = java_class
        self.text = text
        self.causes = causes

    def lines(self) -> list[str]:
        """Return what the JVM prints when it ends of it, without stack frames."""
        said = self.java_class if self.text is None else f"{self.java_class}: {self.text}"
        return [f'Exception in thread "main" {said}', *(f"Caused by: {cause}" for cause in self.causes)]


class LoadError(KdumpError):
    """Loading a log fails: `exception` is Kafka's (with its package), the text its message, `file` the culprit's name.

    Most of these end the start-up of the whole broker; see `takes_directory_offline`.
    """

    def __init__(self, exception: str, text: str, file: str) -> None:
        super().__init__(text)
        self.exception = exception
        self.file = file
        self.batch: tuple[int, int] | None = None
        """Where in the file the batch is that cannot be taken, and its size, both in bytes, if it is one batch."""
        self.position: int | None = None
        """The byte of the file behind which a reader of batches cannot go on, if it is that."""

    @property
    def takes_directory_offline(self) -> bool:
        """Whether the broker starts without this log directory (it takes the fault for the disk's)."""
        return self.exception in _TAKES_DIRECTORY_OFFLINE


class InvalidMarkerError(LoadError):
    """A control batch cannot be read: the recovery of a segment ends behind it, all else fails."""

    def __init__(self, text: str, file: str, row: int) -> None:
        super().__init__(INVALID_RECORD, text, file)
        self.row = row


class InvalidOffsetError(LoadError):
    """Offsets of a segment do not increase where an index entry is due; recoverLog empties the segment then."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(INVALID_OFFSET, text, file)


class OffsetOverflowError(LoadError):
    """A batch's last offset is too far from its segment's base offset: the segment is split."""

    def __init__(self, offset: int, base_offset: int, file: str) -> None:
        text = f"Detected offset overflow at offset {offset} in segment with base offset {base_offset}"
        super().__init__(OFFSET_OVERFLOW, text, file)
        self.base_offset = base_offset


_NOT_LOADED = ("failed to map segment", "cannot allocate memory")
"""What the dynamic linker says of a library for which there is no memory."""


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error is what Python makes of memory that the system refuses, or came of that.

    Beside MemoryError that is an import whose library cannot be mapped, ENOMEM of a system call, and a SystemError: a
    function that failed without saying why.
    """
    while error is not None:
        if isinstance(error, MemoryError | SystemError):
            return True
        if isinstance(error, OSError) and error.errno == ENOMEM:
            return True
        if isinstance(error, ImportError) and any(words in str(error).lower() for words in _NOT_LOADED):
            return True
        error = error.__cause__ or error.__context__
    return False


DEBUG_VARIABLE = "KDUMP_DEBUG"
_NO_THREAD = "can't start new thread"


def shows_where() -> bool:
    """Return whether the environment asks for Python's own report of an error in kdump itself, which ends the run."""
    return bool(os.environ.get(DEBUG_VARIABLE))


def is_out_of_threads(error: BaseException) -> bool:
    """Return whether an error is that of a system which starts no more threads."""
    return isinstance(error, RuntimeError) and str(error) == _NO_THREAD


def is_wrong_call(error: Exception) -> bool:
    """Return whether an exception is one in which `check_number` and the other checks of arguments end."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_globals.get("__name__") == __name__


class InternalError(OSError):
    """An error in kdump itself that ended the work on a partition or a file, `filename`.

    It is an OSError because the partition stays unread: what continues after a partition that the system does not give
    continues after this one.
    """

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"

    @classmethod
    def of(cls, path: str, error: Exception) -> InternalError:
        """Return the one for an exception that ended the work on a partition or a file."""
        return cls(EIO, internal_error_text(error), path)


def internal_error_text(error: Exception) -> str:
    """Return what a report of an error in kdump itself needs: its type, its text, and the module with the line."""
    return f"an error in kdump itself: {type(error).__name__}: {error}{_place(error)}"


def _place(error: Exception) -> str:
    """Return the innermost module of kdump's that an exception came through, with the line."""
    place = ""
    traceback = error.__traceback__
    while traceback is not None:
        name = traceback.tb_frame.f_globals.get("__name__", "")
        if name.partition(".")[0] == "kdump":
            place = f" ({name}, line {traceback.tb_lineno})"
        traceback = traceback.tb_next
    return place
