"""What is said of an error that nobody has foreseen."""

from __future__ import annotations

from kdump.errors import DEBUG_VARIABLE, internal_error_text, is_out_of_threads


def unexpected_text(error: Exception) -> str:
    """Return what is said instead of it."""
    if is_out_of_threads(error):
        return "the system starts no more threads: memory or the number of processes (ulimit -u) is limited"
    return f"{internal_error_text(error)}. Nothing after this was looked at. {report_words()}"


def report_words() -> str:
    """Return what to do about an error in kdump itself."""
    from kdump import __version__

    from .output import again

    return (
        f"Please report it with this output, the version (kdump {__version__}) and the command line: {again()}"
        f" ({DEBUG_VARIABLE}=1 shows more)"
    )
