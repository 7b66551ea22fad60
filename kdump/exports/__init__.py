"""Records of logs as files for other tools: Parquet, JSON lines or CSV, exact and resumable.

Needs pyarrow (`pip install 'kafka-kdump[columns]'`), which only `work` and what it imports load. A log is exported
segment by segment: `plan` names the units of work, `work` writes the files of one unit, `journal` keeps account in the
directory of what is done, and `run` does what is left.
"""
