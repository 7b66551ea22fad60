"""What `kdump resurrect` does: plan, show, and apply if nothing stands in the way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from kdump.cluster.copies import Copy
from kdump.cluster.resurrection import Resurrection
from kdump.errors import RefusedError
from kdump.operations import cluster
from kdump.operations.cluster import Resurrected

from ..shell import exit_codes
from ..shell.output import Output
from ..shell.paths import matches
from ..shell.progress import ProgressBar
from ..shell.rows import output_for
from ..shell.session import Diagnostics, tell_refused
from .asked import ResurrectArgs

if TYPE_CHECKING:
    from .jsonl import JsonLines
    from .text import Text

    Printer: TypeAlias = JsonLines | Text


def resurrect(paths: Sequence[str], asked: ResurrectArgs) -> int:
    """Do what is asked for; the exit code."""
    troubles = Diagnostics()
    found_paths = [each for path in paths for each in matches(path)]
    with ProgressBar(found_paths) as bar, output_for(asked.format) as out:

        def progress(copy: Copy) -> None:
            bar.add(os.path.join(copy.path, "log"), copy.size)

        found = cluster.plan(found_paths, asked.wanted, now=asked.now, in_place=asked.into is None, progress=progress)
        bar.hide()
        for problem in found.problems:
            troubles(problem)
        printer = _printer(out, asked, paths)
        printer.plan(found, cluster.directories_of(found, asked.into))
        reason = f"{len(found.refusals)} things stand in the way" if len(found.refusals) > 1 else "see above"
        if found.refusals:
            printer.end(found, None, reason)
            return exit_codes.REFUSED
        if not asked.applies:
            printer.end(found, None, "")
            return exit_codes.FINDINGS
        try:
            printer.end(found, _apply(found, asked), "")
        except RefusedError as error:
            out.flush()
            tell_refused(error)
            return exit_codes.REFUSED
        return exit_codes.OK


def _apply(found: Resurrection, asked: ResurrectArgs) -> Resurrected:
    still = cluster.watch(found)
    if asked.into is None:
        return cluster.apply_in_place(found, asked.now, still)
    return cluster.build(found, asked.into, asked.now, still)


def _printer(out: Output, asked: ResurrectArgs, paths: Sequence[str]) -> Printer:
    if asked.format == "jsonl":
        from .jsonl import JsonLines

        return JsonLines(out.write, asked)
    from .text import Text

    return Text(out.write, asked, paths)
