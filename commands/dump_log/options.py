"""The options of kafka-dump-log, read as its own option parser reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kdump.dump_log_segments.options import DECODERS, INT_MAX, DumpLogOptions
from kdump.errors import RUNTIME, JavaError
from kdump.releases import DUMP_IN_JAVA, NEWEST, NO_OLD_DECODERS, SHARE_STATE_DECODER, KafkaRelease

from ..shell.release import ENVIRONMENT, asked_release

DECODER_PACKAGE = "org.apache.kafka.tools.api."
OLD_DECODER_PACKAGE = "kafka.serializer."


class Option(NamedTuple):
    """`argument` is None for a flag; in brackets it may be left out."""

    name: str
    argument: str | None
    help: str


OPTIONS = (
    Option("files", "file1,file2,...", "REQUIRED: the files to dump, separated by commas, in this order."),
    Option("print-data-log", None, "Print keys and values too (implies --deep-iteration)."),
    Option("deep-iteration", None, "Print a line for every record, not only for every batch."),
    Option("verify-index-only", None, "Check index files against their log; do not print their entries."),
    Option("index-sanity-check", None, "Only run the broker's sanity check on index files."),
    Option("max-message-size", "bytes", "Bytes of the log looked at for an index entry (default: 5242880)."),
    Option("max-bytes", "bytes", "Read only this many bytes from the start of each log (default: 2147483647)."),
    Option(
        "value-decoder-class",
        "[class]",
        "How to print values: StringDecoder (default), LongDecoder, IntegerDecoder or DefaultDecoder of"
        " org.apache.kafka.tools.api. Implies --print-data-log.",
    ),
    Option("key-decoder-class", "[class]", "The same for keys."),
    Option("offsets-decoder", None, "Decode records as those of __consumer_offsets."),
    Option("transaction-log-decoder", None, "Decode records as those of __transaction_state."),
    Option("cluster-metadata-decoder", None, "Decode records as those of __cluster_metadata."),
    Option("remote-log-metadata-decoder", None, "Decode records as those of __remote_log_metadata."),
    Option("share-group-state-decoder", None, "Decode records as those of __share_group_state."),
    Option("skip-record-metadata", None, "Of records print only keys and values."),
    Option(
        "kafka",
        "release",
        f"Print as that release's kafka-dump-log, from {KafkaRelease.V3_9.value} on (default: {NEWEST.value}, or what"
        f" {ENVIRONMENT} names).",
    ),
    Option("help", None, "Print this help and exit with 1, as Kafka's tool does."),
    Option("version", None, "Print the version and exit."),
)
_SHARE_STATE = "share-group-state-decoder"
BY_NAME = {option.name: option for option in OPTIONS}
TOPIC_DECODERS = tuple(option.name for option in OPTIONS if option.name.endswith("-decoder"))


def _refusal(kind: str, text: str, *causes: str) -> JavaError:
    """Return what Kafka's option parser (joptsimple) throws."""
    return JavaError(f"joptsimple.{kind}Exception", text, *causes)


class Options(NamedTuple):
    """What the command line asked for; `files` is None where none are named."""

    files: tuple[str, ...] | None
    help: bool
    version: bool
    dump: DumpLogOptions


def parse(arguments: list[str]) -> Options:
    """Read a command line. Raises JavaError, and ValueError for a release that is not known."""
    given, repeated = _given(arguments)
    for name in ("files", "kafka"):
        if name in repeated:
            raise _repeated(name)
    release = asked_release(given.get("kafka")) or NEWEST
    if _SHARE_STATE in given and not release.has(SHARE_STATE_DECODER):
        raise _unrecognized(_SHARE_STATE)
    files = given.get("files")
    read = _Arguments(given, repeated, release)
    value_decoder, key_decoder = read.decoder("value-decoder-class"), read.decoder("key-decoder-class")
    topic_decoder = next((name for name in TOPIC_DECODERS if name in given), None)
    dump = DumpLogOptions(
        print_data=any(name in given for name in ("print-data-log", "key-decoder-class", "value-decoder-class")),
        deep="deep-iteration" in given,
        verify_index_only="verify-index-only" in given,
        index_sanity_check="index-sanity-check" in given,
        skip_record_metadata="skip-record-metadata" in given,
        max_message_size=read.number("max-message-size", DumpLogOptions().max_message_size),
        max_bytes=read.number("max-bytes", DumpLogOptions().max_bytes),
        key_decoder=key_decoder,
        value_decoder=value_decoder,
        topic_decoder=topic_decoder,
        release=release,
        refused=read.refused,
        deprecations=() if topic_decoder else tuple(read.deprecations),
    )
    return Options(None if files is None else tuple(_split(files)), "help" in given, "version" in given, dump)


def _split(files: str) -> list[str]:
    """Split as Java does, which drops empty words at the end, unless the first is all there is."""
    words = files.split(",")
    while words and not words[-1] and files:
        words.pop()
    return [_path(word) for word in words]


def _path(text: str) -> str:
    """Return a path as java.io.File keeps it: without doubled slashes, and without one at the end."""
    return re.sub("/+", "/", text).removesuffix("/") or text[:1]


def _given(arguments: list[str]) -> tuple[dict[str, str | None], set[str]]:
    """Return option names with their arguments, and those that are given twice.

    What is no option is ignored, as Kafka's tool ignores it. Raises JavaError.
    """
    given: dict[str, str | None] = {}
    repeated: set[str] = set()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            continue
        name, equals, value = word.lstrip("-").partition("=")
        option = BY_NAME.get(name)
        if option is None:
            raise _unrecognized(name)
        argument = value if equals else _argument(option, rest)
        if name in given and option.argument:
            repeated.add(name)
        given[name] = argument
    return given, repeated


def _repeated(name: str) -> JavaError:
    return _refusal(
        "MultipleArgumentsForOption", f"Found multiple arguments for option {name}, but you asked for only one"
    )


def _unrecognized(name: str) -> JavaError:
    return _refusal("UnrecognizedOption", f"{name} is not a recognized option")


def _argument(option: Option, rest: list[str]) -> str | None:
    if option.argument is None:
        return None
    optional = option.argument.startswith("[")
    if rest and not (optional and rest[0].startswith("-")):
        return rest.pop(0)
    if optional:
        return None
    raise _refusal("OptionMissingRequiredArgument", f"Option {option.name} requires an argument")


class _Arguments:
    """Reads the arguments of options, and remembers those that are refused and what is deprecated."""

    def __init__(self, given: Mapping[str, str | None], repeated: Iterable[str], release: KafkaRelease) -> None:
        self._given = given
        self._release = release
        self.refused = {name: _repeated(name) for name in repeated}
        self.deprecations: list[str] = []

    def number(self, name: str, default: int) -> int:
        """Return an argument that is one of Java's int."""
        text = self._given.get(name)
        if text is None or name in self.refused:
            return default
        number = int(text) if re.fullmatch(r"[+-]?\d{1,99}", text) else INT_MAX + 1
        if -INT_MAX - 1 <= number <= INT_MAX:
            return number
        cause = f'java.lang.NumberFormatException: For input string: "{text}"'
        self.refused[name] = _refusal(
            "OptionArgumentConversion",
            f"Cannot parse argument '{text}' of option {name}",
            f"joptsimple.internal.ReflectionException: {cause}",
            cause,
        )
        return default

    def decoder(self, name: str) -> str:
        """Return an argument that is the class of one of Kafka's decoders."""
        java_class = self._given.get(name)
        if java_class is None or name in self.refused:
            return DECODERS[0]
        package, dot, decoder = java_class.rpartition(".")
        if decoder in DECODERS and package + dot == OLD_DECODER_PACKAGE and not self._release.has(NO_OLD_DECODERS):
            new = DECODER_PACKAGE + decoder
            self.deprecations.append(f"{java_class} is deprecated. Please use {new} instead")
        elif decoder not in DECODERS or package + dot != DECODER_PACKAGE:
            self.refused[name] = self._no_class(java_class)
        return decoder

    def _no_class(self, name: str) -> JavaError:
        """Return Java's own word for a class that cannot be loaded, as none can be here."""
        if self._release.has(DUMP_IN_JAVA):
            cause = f"java.lang.ClassNotFoundException: {name}"
            return JavaError(RUNTIME, "Failed to load decoder class", cause)
        return JavaError("java.lang.ClassNotFoundException", name)


def help_text() -> str:
    """Return the table of options, as wide as a terminal."""
    import textwrap

    lines = [
        "This tool helps to parse a log file and dump its contents to the console, useful for debugging a seemingly",
        "corrupt log segment. It takes the options of kafka-dump-log.sh and prints what that prints, without a JVM.",
        "See also: kdump dump (filters, jsonl, csv), kdump ls.",
        "",
    ]
    names = [f"--{option.name}" + (f" <{option.argument}>" if option.argument else "") for option in OPTIONS]
    width = max(map(len, names)) + 2
    for name, option in zip(names, OPTIONS, strict=True):
        wrapped = textwrap.wrap(option.help, 118 - width)
        lines.append(name.ljust(width) + wrapped[0])
        lines.extend(" " * width + line for line in wrapped[1:])
    return "\n".join(lines) + "\n"
