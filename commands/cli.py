"""The command `kdump`: a group whose commands are imported when they are called."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
import threading
from collections.abc import Callable
from errno import ENOSPC
from itertools import repeat
from typing import TYPE_CHECKING, Any

import click

from kdump.errors import KdumpError, is_out_of_memory, shows_where

from .shell import exit_codes
from .shell.signals import Terminated, end_on_sigterm
from .shell.unexpected import unexpected_text

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from .shell.screen import Screen

SECTIONS = {
    "Look": ("ls", "dump", "lookup", "stats", "groups", "txns", "metadata", "schemas"),
    "Check": ("doctor", "explain", "verify", "startup", "replicas", "retain", "compact"),
    "Repair": ("repair", "rebuild-index", "trim", "undo", "resurrect", "quorum"),
    "Make": ("append", "roll", "fixture", "export"),
    "Serve": ("serve",),
    "Help": ("help", "completion"),
}
"""The commands as the help has them."""
COMMANDS = tuple(name for names in SECTIONS.values() for name in names)

NO_MEMORY = "there is not enough memory for this"
_NO_MEMORY = f"kdump: {NO_MEMORY}\n".encode()
_TRIES = repeat(None, 10_000)
"""Saying so needs a little memory itself; counting must not."""

SHARED_PACKAGES = {"rebuild-index": "repair.rebuild_index", "trim": "repair.trim", "roll": "append.roll"}
"""Commands that live in the package of another one. All others are `command` in the package of their name."""


_LOADED: dict[str, click.Command] = {}


class LazyGroup(click.Group):
    """A group that imports a command's module only to run it or to tell about it."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, which is imported now; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = SHARED_PACKAGES.get(cmd_name, f"{cmd_name}.command")
        if cmd_name not in _LOADED:
            from .shell.command import complete_command

            _LOADED[cmd_name] = complete_command(cmd_name, importlib.import_module(f".{module}", __package__).command)
        return _LOADED[cmd_name]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the commands; where none begins so, a PATH, of which `kdump PATH` tells what doctor finds."""
        from click.shell_completion import CompletionItem

        return super().shell_complete(ctx, incomplete) or [CompletionItem(incomplete, type="file")]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, as they are needed."""
        for title, names in SECTIONS.items():
            commands = ((name, self.get_command(ctx, name)) for name in names)
            with formatter.section(title):
                formatter.write_dl([(name, each.get_short_help_str(200)) for name, each in commands if each])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take the command off the arguments; say what was forgotten where a path stands first."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            if os.sep in args[0] or os.path.isdir(args[0]):
                _begin(["doctor", *args])
                return "doctor", self.get_command(ctx, "doctor"), args
            from .shell.usage import unknown_command

            ctx.fail(unknown_command(args[0], COMMANDS))
        screen = _begin(args)
        screen.lists_complaints = args[0] in _LISTING if args else False
        if _ALL in args and (args[0] == "help" or not _HELP.isdisjoint(args)):
            screen.shows_all_options = True
            args = [word for word in args if word != _ALL]
        return super().resolve_command(ctx, args)


def _begin(words: list[str]) -> Screen:
    """Forget the run before, and keep what this one was called with."""
    from .shell.screen import begin_screen

    screen = begin_screen()
    screen.words = tuple(words)
    return screen


_LISTING = ("dump", "metadata")
"""Commands that complain of single records, which are then missing from what they print."""
_HELP, _ALL = frozenset({"-h", "--help"}), "--all"


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from kdump import __version__, kernels

    click.echo(f"kdump {__version__}\nkernels: {kernels.active}\nCRC-32C: {kernels.crc_engine()}")
    ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "-V", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version,
    help="Show the version, the kernels in use and what computes CRC-32C.",
)
def cli() -> None:
    """Read, check and repair the log directories of Apache Kafka brokers. Without a broker and without a JVM.

    PATHs are files of a segment, partition directories or log directories (entries of log.dirs).

    Exit codes: 0 OK or done, 1 findings, 2 usage, 3 incomplete, 4 refused by a safety check.
    """


def main() -> None:
    """Run the command line and exit; no traceback reaches the user."""
    # What is loaded and planned lives to the end: looking for garbage in it every 700 objects takes 4 % of a start.
    gc.set_threshold(50_000)
    try:
        try:
            _open_closed_streams()
            _say_nothing_twice()
            code = _exit_code_of(_run)
            code = _exit_code_of(lambda: _finish(code))
            sys.exit(code)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
    except MemoryError:  # there was not even enough to ask what it was
        pass
    for _ in _TRIES:  # nor to say so
        try:
            os.write(2, _NO_MEMORY)
            break
        except MemoryError:
            continue
    os._exit(exit_codes.INCOMPLETE)


class _Hook:
    """Leaves what ends for want of memory unsaid, and all else to the hook before."""

    def __init__(self, other: Callable[[Any], object]) -> None:
        self._other = other

    def __call__(self, end: Any) -> None:
        if not is_out_of_memory(end.exc_value):
            self._other(end)


def _say_nothing_twice() -> None:
    """Let Python print no traceback where memory ends in a thread, or while something is closed: we say it."""
    if shows_where():
        return
    if not isinstance(threading.excepthook, _Hook):
        threading.excepthook = _Hook(threading.excepthook)
    if not isinstance(sys.unraisablehook, _Hook):
        sys.unraisablehook = _Hook(sys.unraisablehook)


def _open_closed_streams() -> None:
    """Give the standard streams that the caller has closed: a file of Kafka's opened next would have their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            from kdump.disk.descriptors import lead_nowhere

            lead_nowhere(number)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def _run() -> int:
    end_on_sigterm()
    code: int = cli.main(prog_name="kdump", standalone_mode=False)
    # The process ends next and gives all back: to look through it for garbage once more takes a seventh of a small run.
    # Not after an interruption, where something may still wait to be closed.
    atexit.register(gc.freeze)
    if "kdump.storage.live" in sys.modules:  # partitions were looked at
        from kdump.storage.live import tally

        from .shell.session import say_circumstances

        if tally.internal_errors and code in (exit_codes.OK, exit_codes.FINDINGS):
            code = exit_codes.INCOMPLETE
        say_circumstances(code)
    return code


def _finish(code: int) -> int:
    """End the rows in JSON, which say how it went, and hand over what is still held."""
    if "kdump.commands.shell.rows" in sys.modules:
        from .shell.rows import finish_rows

        finish_rows(code)
    _print_held(code)
    sys.stdout.flush()
    if "kdump.commands.shell.output" in sys.modules:
        from .shell.output import say_uncomplained

        say_uncomplained()
    return code


def _print_held(code: int) -> None:
    """Print what -q has held back, unless nothing was found."""
    from .shell.screen import Screen

    screen = Screen.current
    held, screen.held = screen.held, []
    screen.drops_if_ok = False
    if held and (code != exit_codes.OK or screen.has_findings):
        from .shell.output import Output

        with Output() as out:
            out.write("".join(held))


def _exit_code_of(work: Callable[[], int]) -> int:  # noqa: C901, PLR0911 - each way to end has its exit code
    """Return the exit code of a piece of work, however it ends; what went wrong is said on stderr."""
    try:
        return work()
    except BrokenPipeError:
        from kdump.disk.descriptors import lead_nowhere

        lead_nowhere(sys.stdout.fileno())  # what the next flush at exit would say is of no use to anyone
        return exit_codes.OK
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as error:
        from .shell.output import say
        from .shell.usage import usage_text

        for line in usage_text(error).splitlines():
            say(line)
        return error.exit_code
    except click.ClickException as error:
        from .shell.output import complain

        complain(error.format_message())
        return error.exit_code
    except (KeyboardInterrupt, click.Abort) as end:  # click makes an Abort of what it is interrupted by
        is_terminated = isinstance(end, Terminated) or isinstance(end.__cause__, Terminated)
        _say_interrupted()
        return exit_codes.TERMINATED if is_terminated else exit_codes.INTERRUPTED
    except KdumpError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(_system_text(error))
    except Exception as error:
        if is_out_of_memory(error):
            return _fail(NO_MEMORY)
        if shows_where():
            raise
        return _fail(unexpected_text(error))


def _say_interrupted() -> None:
    """Say that the end of the output is not the end of the run, unless the command has said so with what is to do."""
    from .shell.progress import hide_progress
    from .shell.screen import Screen

    if not Screen.current.has_said_interrupted:
        hide_progress()
        click.echo("Interrupted: what is printed is incomplete.", err=True)


def _system_text(error: OSError) -> str:
    """Return what the system does not do; only standard output is written without a name."""
    from .shell.output import os_error_text, os_text

    if isinstance(error.filename, str | bytes):
        return os_error_text(error, "")
    return f"cannot write to standard output: {error.strerror}" if error.errno == ENOSPC else os_text(error)


def _fail(text: str) -> int:
    from kdump.formats.printable import safe

    from .shell.output import complain

    complain("\n".join(map(safe, text.split("\n"))))
    return exit_codes.INCOMPLETE
