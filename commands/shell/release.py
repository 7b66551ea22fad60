"""Which release of Kafka a command imitates: the one asked for on the command line or in the environment."""

from __future__ import annotations

import os

from kdump.releases import KafkaRelease

ENVIRONMENT = "KDUMP_KAFKA"
"""The environment variable that stands for `--kafka` where that is not given."""


def asked_release(text: str | None) -> KafkaRelease | None:
    """Return the release that `--kafka` asks for, else the environment; None for the command's own choice.

    Raises ValueError.
    """
    if text is None:
        text = os.environ.get(ENVIRONMENT) or None
        if text is None:
            return None
    return KafkaRelease.parse(text)
