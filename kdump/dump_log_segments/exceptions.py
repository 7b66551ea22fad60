"""Exceptions of the JVM, as kafka-dump-log ends with them."""

from __future__ import annotations

from kdump.errors import KdumpError


class JavaError(KdumpError):
    """An exception of the JVM by its class name; `causes` are those behind it, each as its class and text."""

    def __init__(self, java_class: str, text: str | None = None, *causes: str) -> None:
        super().__init__(text or "")
        self.java_class = java_class
        self.text = text
        self.causes = causes

    def lines(self) -> list[str]:
        """Return what the JVM prints when it ends of it, without stack frames."""
        said = self.java_class if self.text is None else f"{self.java_class}: {self.text}"
        return [f'Exception in thread "main" {said}', *(f"Caused by: {cause}" for cause in self.causes)]
