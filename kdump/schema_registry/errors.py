"""What goes wrong with schemas and with what was written by them."""

from __future__ import annotations

from kdump.errors import KdumpError


class SchemaError(KdumpError):
    """A schema cannot be understood, or a payload does not fit the schema that it names."""


class UnknownSchemaError(SchemaError):
    """A record names a schema that is not among those at hand."""


class ExtraMissingError(KdumpError):
    """A library that decoding needs is not installed."""

    def __init__(self, what: str, error: ImportError) -> None:
        super().__init__(f"{what} needs {error.name}: pip install 'kafka-kdump[schemas]'")
