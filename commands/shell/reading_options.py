"""The options by which commands choose among the records of logs, and bound what reading one batch may take."""

from __future__ import annotations

import click

from kdump.txns.isolation_level import Isolation

from .options import Option
from .values import offset_range, read_by, size, time_ms

offsets_option: Option = click.option(
    "--offsets", metavar="A:B", callback=read_by(offset_range),
    help="Records from offset A up to, but without, B. Either may be omitted; N alone is that one offset.",
)  # fmt: skip
since_option: Option = click.option(
    "--since", metavar="TIME", callback=read_by(time_ms),
    help="Records of this time or later: ISO 8601 (UTC unless it names a zone) or milliseconds.",
)  # fmt: skip
until_option: Option = click.option(
    "--until", metavar="TIME", callback=read_by(time_ms), help="Records before this time."
)  # fmt: skip
isolation_option: Option = click.option(
    "--isolation", type=click.Choice([level.value for level in Isolation]), default=Isolation.READ_UNCOMMITTED.value,
    show_default=True, callback=read_by(Isolation),
    help="read_committed: only what a consumer with this isolation.level gets, up to the last stable offset, without"
    " aborted transactions and markers.",
)  # fmt: skip
no_index_option: Option = click.option(
    "--no-index", is_flag=True, help="Read everything; do not find offsets and times by index files."
)  # fmt: skip
max_decompressed_size_option: Option = click.option(
    "--max-decompressed-size", metavar="SIZE", default="1G", show_default=True, callback=read_by(size),
    help="Bytes (or K, M, G) that a single batch may decompress to; larger ones are reported and skipped.",
)  # fmt: skip
