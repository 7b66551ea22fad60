"""What Kafka's dump tool is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kdump.errors import JavaError, check_number, check_several, check_truths, check_type, check_word
from kdump.releases import DUMP_IN_JAVA, NEWEST, KafkaRelease

INT_MAX = 0x7FFF_FFFF

DECODERS = ("StringDecoder", "LongDecoder", "IntegerDecoder", "DefaultDecoder")
"""How keys and values can be printed: classes of org.apache.kafka.tools.api."""


class DumpLogOptions(NamedTuple):
    """Options of Kafka's dump tool, by its names for them; sizes in bytes.

    `deep` prints a line for each record, `print_data` also keys and values. `key_decoder` and `value_decoder` are among
    DECODERS; `topic_decoder`, for all records of an internal topic, is the option of its name, as `offsets-decoder`.
    `release` is the one whose tool is imitated.
    """

    print_data: bool = False
    deep: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    skip_record_metadata: bool = False
    max_message_size: int = 5 * 1024 * 1024
    max_bytes: int = INT_MAX
    key_decoder: str = DECODERS[0]
    value_decoder: str = DECODERS[0]
    topic_decoder: str | None = None
    release: KafkaRelease = NEWEST
    refused: Mapping[str, JavaError] = MappingProxyType({})
    """By option what is wrong with its argument: Kafka's tool dies of that at the first file that it needs it for."""
    deprecations: tuple[str, ...] = ()
    """Lines about old decoder classes, which are printed for every log."""

    @property
    def prints_data(self) -> bool:
        """Whether keys and values are printed: decoders imply it."""
        decoders = self.key_decoder, self.value_decoder
        return self.print_data or self.topic_decoder is not None or decoders != (DECODERS[0], DECODERS[0])

    @property
    def is_deep(self) -> bool:
        """Whether a line is printed for each record."""
        return self.deep or self.prints_data

    @property
    def is_java(self) -> bool:
        """Whether the tool is the one that is written in Java, not in Scala."""
        return self.release.has(DUMP_IN_JAVA)

    def check(self) -> None:
        """Raise ValueError or TypeError for what is none of the tool's options."""
        from kdump.formats.schemas.dump_text import DECODERS as TOPIC_DECODERS

        truths = ("print_data", "deep", "verify_index_only", "index_sanity_check", "skip_record_metadata")
        check_truths(**{name: getattr(self, name) for name in truths})
        check_word("key_decoder", self.key_decoder, DECODERS)
        check_word("value_decoder", self.value_decoder, DECODERS)
        check_word("topic_decoder", self.topic_decoder, TOPIC_DECODERS, may_be_none=True)
        check_type("release", self.release, KafkaRelease)
        check_number("max_message_size", self.max_message_size, -INT_MAX - 1, INT_MAX)
        check_type("refused", self.refused, Mapping)
        check_several("deprecations", self.deprecations, str)
        check_number("max_bytes", self.max_bytes, -INT_MAX - 1, INT_MAX)

    def need(self, *names: str) -> None:
        """Raise JavaError for the first of some options that is refused."""
        for name in names:
            if name in self.refused:
                raise self.refused[name]
