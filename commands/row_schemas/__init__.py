"""What the rows of each command are in JSON: COMMAND.N.schema.json, JSON Schemas that ship with kdump."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable


def schema_file(command: str, version: int) -> Traversable:
    """Return the JSON Schema of a command's rows; `command` is as in the header, as `fixture-faults`."""
    return files(__name__) / f"{command}.{version}.schema.json"
