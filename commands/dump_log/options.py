"""The options of kafka-dump-log, read as its own option parser reads them."""

from __future__ import annotations

from typing import NamedTuple

from kdump.releases import NEWEST, SHARE_STATE_DECODER, KafkaRelease

from ..shell.release import ENVIRONMENT, asked_release

INT_MAX = 0x7FFF_FFFF

DECODER_PACKAGES = ("org.apache.kafka.tools.api.", "kafka.serializer.")
DECODERS = ("StringDecoder", "LongDecoder", "IntegerDecoder", "DefaultDecoder")


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


class OptionError(Exception):
    """A command line that Kafka's option parser (joptsimple) refuses, with the exception that it throws."""

    def __init__(self, java_class: str, text: str) -> None:
        super().__init__(text)
        self.java_class = f"joptsimple.{java_class}"


class Options(NamedTuple):
    """What the command line asked for; sizes in bytes."""

    files: tuple[str, ...] = ()
    help: bool = False
    version: bool = False
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


def parse(arguments: list[str]) -> Options:
    """Read a command line. Raises OptionError and DecoderError, and ValueError for a release that is not known."""
    given = _given(arguments)
    release = asked_release(given.get("kafka")) or NEWEST
    if _SHARE_STATE in given and not release.has(SHARE_STATE_DECODER):
        raise _unrecognized(_SHARE_STATE)
    files = given.get("files")
    topic_decoder = next((name for name in TOPIC_DECODERS if name in given), None)
    print_data = topic_decoder is not None or any(
        name in given for name in ("print-data-log", "key-decoder-class", "value-decoder-class")
    )
    return Options(
        files=tuple(files.split(",")) if files else (),
        help="help" in given,
        version="version" in given,
        print_data=print_data,
        deep=print_data or "deep-iteration" in given,
        verify_index_only="verify-index-only" in given,
        index_sanity_check="index-sanity-check" in given,
        skip_record_metadata="skip-record-metadata" in given,
        max_message_size=_number(given, "max-message-size", Options().max_message_size),
        max_bytes=_number(given, "max-bytes", Options().max_bytes),
        key_decoder=_decoder(given.get("key-decoder-class")),
        value_decoder=_decoder(given.get("value-decoder-class")),
        topic_decoder=topic_decoder,
        release=release,
    )


def _given(arguments: list[str]) -> dict[str, str | None]:
    """Option names with their arguments; what is no option is ignored, as Kafka's tool ignores it."""
    given: dict[str, str | None] = {}
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
            raise OptionError("MultipleArgumentsForOptionException", f"Found multiple arguments for option {name}")
        given[name] = argument
    return given


def _unrecognized(name: str) -> OptionError:
    return OptionError("UnrecognizedOptionException", f"{name} is not a recognized option")


def _argument(option: Option, rest: list[str]) -> str | None:
    if option.argument is None:
        return None
    optional = option.argument.startswith("[")
    if rest and not (optional and rest[0].startswith("-")):
        return rest.pop(0)
    if optional:
        return None
    raise OptionError("OptionMissingRequiredArgumentException", f"Option {option.name} requires an argument")


def _number(given: dict[str, str | None], name: str, default: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = INT_MAX + 1
    if not -INT_MAX - 1 <= number <= INT_MAX:
        raise OptionError("OptionArgumentConversionException", f"Cannot parse argument '{text}' of option {name}")
    return number


def _decoder(name: str | None) -> str:
    if name is None:
        return DECODERS[0]
    for package in DECODER_PACKAGES:
        if name.removeprefix(package) in DECODERS:
            return name.removeprefix(package)
    raise DecoderError(
        f"{name} is a Java class, which dump-log cannot load: it has {', '.join(DECODERS)} of"
        f" {DECODER_PACKAGES[0].rstrip('.')}; `kdump dump --format jsonl` gives the bytes of every key and value"
    )


class DecoderError(Exception):
    """A decoder class that is none of Kafka's own."""


def help_text() -> str:
    """The table of options, as wide as a terminal."""
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
