"""What every command prints with: colours, complaints, and stdout in large pieces.

stdout gets data alone. Complaints go to stderr, one line each unless that is a terminal.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import ENOENT
from typing import TYPE_CHECKING, BinaryIO, Self

import click

from kdump.errors import ArgumentError, HoldsLogDirectoriesError
from kdump.formats.printable import command_line, safe, safe_lines, safe_path, shell_word
from kdump.formats.words import number_words

from . import exit_codes
from .pager import begin_pager, may_page, stream_of
from .progress import hide_progress
from .prose import STYLE, error_lines, fitted
from .screen import Screen
from .whole_lines import write_lines

NO_SUCH = "does not exist"
NOTHING_CHECKED = ". Nothing was checked."

PIECE = 1 << 18
_MAX_HELD_BACK = 1 << 24
_MAX_COMPLAINTS_KEPT = 10_000
MAX_COMPLAINTS = 20
"""Complaints of a run that are printed without -v; the others are a count at its end."""
TERMINAL_PIECE = 1 << 12
_HOW_SHOWN = ("--wide", "--no-pager")
"""Options that a command line is repeated without."""
_MAX_KNOWN = 5_000
"""In larger directories no name is looked for that was meant."""


if TYPE_CHECKING:
    import subprocess


def verbatim(text: str) -> str:
    """Return a text as it is: what a program reads is never folded."""
    return text


def displayed(text: str, width: int | None = None) -> str:
    """Return text for people as it goes out: in lines that fit `width`, with no controls but line ends and styles.

    Names and records are escaped here once more, so that no line of output can forget to.
    """
    text = STYLE.join(map(safe_lines, text.split(STYLE)))
    return (text if width is None else fitted(text, width)).replace(STYLE, "\x1b")


class OutputError(click.ClickException):
    """stdout takes no more: a full disk, for instance."""

    exit_code = exit_codes.INCOMPLETE


@contextmanager
def output_errors() -> Iterator[None]:
    """Tell the errors of writing from those of reading. Where nobody reads on, the command is done."""
    try:
        yield
    except BrokenPipeError:
        from kdump.disk.descriptors import lead_nowhere

        with suppress(OSError):  # what is still held somewhere is of no use to anyone
            lead_nowhere(sys.stdout.fileno())
        raise click.exceptions.Exit(exit_codes.OK) from None
    except OSError as error:
        raise OutputError(f"cannot write to standard output: {error.strerror}") from None


class Output:
    """stdout, written in large pieces; what is still held goes out when the `with` ends, however it ends."""

    def __init__(self, finish: Callable[[str], str] | None = None) -> None:
        """`finish` is applied to every piece before it goes out; without one it is text, which fits the screen."""
        self._stream: BinaryIO = sys.stdout.buffer
        screen = Screen.current
        width = screen.width
        self._finish = finish or (lambda text: displayed(text, width))
        self._screen = screen if finish is None else None  # of text only
        self._pager: subprocess.Popen[bytes] | None = None
        self._may_page = finish is None and may_page()
        terminal = sys.stdout.isatty()
        self._most = TERMINAL_PIECE if terminal else PIECE
        # what a terminal of another encoding lacks is escaped; files and pipes get UTF-8
        self._encoding = (sys.stdout.encoding or "utf-8") if terminal else "utf-8"
        self._held: list[str] = []
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._screen is not None and self._screen.drops_if_ok:
            self._screen.hold(self._held)
            return
        try:
            self.flush()
        finally:
            self._end_pager()

    def write(self, text: str) -> None:
        """Print `text`, line ends included; whole lines at a time, so that an interrupt leaves no half one."""
        self._held.append(text)
        self._size += len(text)
        if self._size < self._most and not self._may_page:
            return
        if self._is_held_back:
            return
        if self._may_page and "".join(self._held).count("\n") < Screen.current.height:
            return
        self._begin_pager()
        self._drain()

    @property
    def _is_held_back(self) -> bool:
        """Whether nothing goes out until it is known how the run ends (-q)."""
        return self._screen is not None and self._screen.drops_if_ok and self._size < _MAX_HELD_BACK

    def _begin_pager(self) -> None:
        """Hand what is printed from now on to a pager, if it may."""
        if self._may_page:
            self._may_page = False
            self._pager = begin_pager()
            if self._pager is not None:
                self._stream = stream_of(self._pager)

    def _end_pager(self) -> None:
        pager, self._pager = self._pager, None
        if pager is None:
            return
        with suppress(OSError):
            stream_of(pager).close()
        while pager.returncode is None:
            with suppress(KeyboardInterrupt):  # it is the pager's, until the reader leaves it
                pager.wait()

    @property
    def holds(self) -> bool:
        """Whether something is still to go out."""
        return bool(self._held)

    def flush(self) -> None:
        """Give everything to the reader now; what has not filled the terminal by then gets no pager."""
        if self._is_held_back:
            return
        self._may_page = False
        self._drain()
        with output_errors():
            self._stream.flush()

    def _drain(self) -> None:
        text = "".join(self._held)
        self._held.clear()
        self._size = 0
        if not text:
            return
        hide_progress()
        data = self._finish(text).encode(self._encoding, "backslashreplace")
        with output_errors():
            write_lines(self._stream, data)


def complain(text: str, *, is_one_of_many: bool = False, who: str = "kdump") -> bool:
    """Print one line on stderr, once in a run, and return whether it was printed.

    Of those that are one of many, as of partitions, what is more than a screen takes is counted.
    """
    screen = Screen.current
    if text in screen.complaints:
        return False
    if len(screen.complaints) < _MAX_COMPLAINTS_KEPT:
        screen.complaints.add(text)
    if is_one_of_many and not screen.lists_complaints:
        screen.complaint_count += 1
        if screen.complaint_count > MAX_COMPLAINTS and not screen.verbosity:
            return False
    say(f"{who}: {text}")
    return True


def say_interrupted(what: str) -> None:
    """Say on stderr that the command was interrupted, and what that comes to."""
    Screen.current.has_said_interrupted = True
    complain(f"interrupted: {what}")


def say(text: str) -> None:
    """Print a message on stderr, in lines that fit the screen."""
    hide_progress()
    for line in error_lines(safe_lines(text)):
        click.echo(line, err=True)


def say_line(text: str) -> None:
    """Print one line on stderr, however long."""
    click.echo(safe_lines(text), err=True)


def nothing_changed(reason: str) -> str:
    """Return the verdict where nothing was changed, with the reason unless it was just shown."""
    is_shown = reason in Screen.current.complaints and sys.stdout.isatty() and sys.stderr.isatty()
    why = "." if is_shown else f": {reason.removesuffix(' Nothing was changed.')}"
    return f"Nothing was changed{why}\n"


def say_uncomplained() -> None:
    """Say, at the end of a run, how many complaints were not printed."""
    screen = Screen.current
    more = 0 if screen.verbosity else screen.complaint_count - MAX_COMPLAINTS
    if more > 0:
        say(f"kdump: {number_words(more, 'more line')} like these: -v shows all.")


def note(text: str) -> None:
    """Print a note on stderr, which is no finding; none with -q."""
    if not Screen.current.is_quiet:
        complain(f"note: {text}")


def again(*more: str) -> str:
    """Return the command line of this run, but how its lines are shown, with some words after it."""
    return command_line("kdump", *_as_shown(Screen.current.words), *more)


def to_apply() -> str:
    """Return the command line that applies what this run has shown: the plan that it has saved, if it has saved one."""
    words = Screen.current.words
    saved = [re.sub("^--plan-out(?==|$)", "--apply-plan", word) for word in words]
    return again("--apply") if saved == [*words] else command_line("kdump", *_as_shown(saved))


def holds_text(error: HoldsLogDirectoriesError) -> str:
    """Return what a directory is not, and this command line with the log directories that are in it."""
    words = [other for word in Screen.current.words for other in (error.inside if word == error.path else (word,))]
    return f"not a log directory; it holds {len(error.inside)}: {command_line('kdump', *words)}"


def to_apply_all_the_same(more: str = "") -> str:
    """Return in words how what this run has shown is applied, for what is not to be pasted unread; `more` options."""
    if to_apply() == again("--apply"):
        return f"this command with --apply{more}"
    return f"this command with{more.removeprefix(' and')}{more and ','} --apply-plan in place of --plan-out"


def _as_shown(words: Iterable[str]) -> list[str]:
    return [word for word in words if word not in _HOW_SHOWN]


def quoted(word: str) -> str:
    """Return a word of a command line as a shell takes it; safe to print."""
    return shell_word(word)


def error_text(error: Exception) -> str:
    """Return what an error says; an argument of the library is named as the option that a command has for it."""
    if isinstance(error, ArgumentError):
        return f"--{error.argument.replace('_', '-')} {error.value}: {error.text}"
    return str(error)


def os_error_text(error: OSError, path: str) -> str:
    """Return what the system says, with the file that it names, or else `path`; safe to print."""
    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else path  # else a descriptor
    return about(where, os_text(error))


def about(path: str, text: str) -> str:
    """Return what is said of a path, as one sentence where it is that it does not exist; safe to print."""
    if text != NO_SUCH:
        return f"{safe_path(path)}: {safe(text)}"
    return f"{safe_path(path)} {text}{NOTHING_CHECKED if Screen.current.is_in_vain else ''}{_meant(path)}"


def _meant(path: str) -> str:
    """Return what follows where something of almost the same name is there; "" else."""
    from kdump.formats.close_names import closest

    folder, name = os.path.split(path.rstrip("/"))
    try:
        known = os.listdir(folder or ".") if name else []
    except OSError:
        return ""
    close = closest(name, known, 0.8) if len(known) <= _MAX_KNOWN else None
    end = "" if Screen.current.is_in_vain else "."
    return f"{end} Did you mean '{safe_path(os.path.join(folder, close))}'?" if close else ""


def as_given(text: str, given: Mapping[str, str]) -> str:
    """Return a message with paths as the command line has them; `given` has these by their absolute paths."""
    for absolute in sorted(given, key=len, reverse=True):
        path = given[absolute].replace("\\", r"\\")
        text = re.sub(rf"(?<![\w./-]){re.escape(absolute)}(?![\w.-])", path, text)
    return text


def os_text(error: OSError) -> str:
    """Return what the system says, without a file."""
    return NO_SUCH if error.errno == ENOENT and error.strerror == os.strerror(ENOENT) else error.strerror or str(error)


def wants_color(choice: str = "auto") -> bool:
    """Return whether `auto`, `always` or `never` means colour here."""
    return choice == "always" if choice != "auto" else Screen.current.is_colored


class Style:
    """What stands before and after a text to colour it; nothing where there is no colour."""

    __slots__ = ("after", "before")

    def __init__(
        self, is_colored: bool, foreground: str | None = None, *, bold: bool = False, dim: bool = False
    ) -> None:
        """`foreground` is one of click's names of colours."""
        self.before = self.after = ""
        if is_colored:
            styled = click.style("\0", fg=foreground, bold=bold or None, dim=dim or None)
            self.before, _, self.after = styled.replace("\x1b", STYLE).partition("\0")

    def __call__(self, text: str) -> str:
        """Return the text in colour."""
        return f"{self.before}{text}{self.after}"
