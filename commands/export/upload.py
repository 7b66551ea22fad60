"""`kdump export --to s3://…`: an export into a staging directory, which then is sent."""

from __future__ import annotations

import os
import shutil
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from kdump.errors import KdumpError, RefusedError
from kdump.export.object_store import check_library, upload
from kdump.export.options import ExportOptions
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import number_words, size_text

from ..shell import exit_codes
from ..shell.output import Output, complain, os_error_text
from .run import Decoding, run_export

if TYPE_CHECKING:
    from kdump.spark.jobs import Cluster


def run_upload(
    paths: tuple[str, ...],
    url: str,
    staging: str | None,
    topics: tuple[str, ...],
    options: ExportOptions,
    cluster: Cluster | None = None,
    decoding: Decoding | None = None,
) -> int:
    """Export what is at `paths` into the staging directory, and send it to a store; the exit code.

    A temporary staging directory is removed when everything has arrived. Raises click.UsageError, OSError, KdumpError.
    """
    check_library()
    folder = staging or mkdtemp(prefix="kdump-export-")
    code: int = exit_codes.INCOMPLETE
    try:
        code = run_export(paths, folder, topics, options, cluster, decoding)
        if code < exit_codes.INCOMPLETE:
            code = max(code, _send(folder, url))
    finally:
        if staging is None:
            _clean_up(folder, keeps=code == exit_codes.INCOMPLETE)
    return code


def _send(folder: str, url: str) -> int:
    try:
        done = upload(folder, url)
    except RefusedError as error:
        complain(safe(str(error)))
        return exit_codes.REFUSED
    except KdumpError as error:
        complain(safe(str(error)))
        return exit_codes.INCOMPLETE
    except OSError as error:
        complain(os_error_text(error, folder))
        return exit_codes.INCOMPLETE
    already = f" ({number_words(done.already, 'file')} already there)" if done.already else ""
    with Output() as out:
        out.write(f"{number_words(done.files, 'file')} of {size_text(done.bytes)} sent to {safe(url)}{already}\n")
    return exit_codes.OK


def _clean_up(folder: str, *, keeps: bool) -> None:
    """Remove a temporary staging directory, unless it has something that a later run can resume with."""
    if keeps and os.listdir(folder):
        complain(f"what was written is kept; to resume, repeat this with --staging {safe_path(folder)}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
