"""Answers about configurations: what the cluster's metadata has, and Kafka's defaults for the rest of a topic's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from kdump.formats.config_resources import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    RESOURCE_TYPES,
    TOPIC_RESOURCE,
)
from kdump.formats.java_text import INT_MAX
from kdump.releases import NEWEST
from kdump.server.context import Context, Fields, unknown_topic
from kdump.server.protocol.errors import ErrorCode
from kdump.server.protocol.frames import Request
from kdump.settings.node import LOG_DIRECTORIES, NODE_ID
from kdump.settings.sources import built_in
from kdump.settings.table import SETTINGS, Flag, Fraction, Listed, Number, Setting, Words
from kdump.topics.secrets import is_secret


class _Source(IntEnum):
    """Where a value comes from (DescribeConfigsResponse.ConfigSource)."""

    TOPIC = 1
    BROKER = 2
    DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8
    CLIENT_METRICS = 7


class _Type(IntEnum):
    """The type of a value (DescribeConfigsResponse.ConfigType)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class _Config(NamedTuple):
    """A topic's configuration: its default, and the broker's of the same unit that stands for it ("": none)."""

    type: _Type
    default: str
    server_name: str = ""


def _config_of(setting: Setting[Any]) -> _Config:
    """Return the configuration that a setting of topics is."""
    match setting.kind:
        case Number(most=most):
            kind = _Type.LONG if most > INT_MAX else _Type.INT
        case Fraction():
            kind = _Type.DOUBLE
        case Flag():
            kind = _Type.BOOLEAN
        case Words() | Listed():
            kind = _Type.LIST
        case _:
            kind = _Type.STRING
    return _Config(kind, setting.default_text, setting.server[0].name if setting.server else "")


_TOPIC_CONFIGS = {each.name: _config_of(each) for each in SETTINGS if each.is_topics and each.is_in(NEWEST)}
"""Kafka 4.3's (LogConfig, ServerTopicConfigSynonyms)."""


_DEFAULTS_OF_BROKERS = {
    "flush.ms": None,
    "retention.ms": ("log.retention.hours", "168"),
    "segment.jitter.ms": None,
    "segment.ms": None,
}
"""Where the broker's setting is not the one that has the default: the name and value of that one, None for no word of
it (Kafka 4.3's answers; ServerTopicConfigSynonyms).
"""


class _Value(NamedTuple):
    """A value under the name that it was set by; "" for a default that the broker has no setting of."""

    name: str
    value: str
    source: _Source


def describe_configs(ctx: Context, request: Request) -> Fields:
    """Answer DescribeConfigs."""
    body = request.body
    return {"results": [_described(ctx, each, request.version, body) for each in body["resources"]]}


def _described(ctx: Context, asked: Fields, version: int, body: Fields) -> Fields:
    kind, name = asked["resourceType"], asked["resourceName"]
    answer: Fields = {"resourceType": kind, "resourceName": name}
    if kind not in RESOURCE_TYPES:
        return answer | {"errorCode": ErrorCode.INVALID_REQUEST, "errorMessage": f"{kind} is no kind of resource"}
    if kind == TOPIC_RESOURCE and name not in ctx.cluster.topics:
        return answer | {"errorCode": unknown_topic(name), "errorMessage": f"Topic {name!r} does not exist."}
    if kind == BROKER_RESOURCE and name not in ("", str(ctx.node_id)):
        message = f"Unexpected broker id, expected {ctx.node_id} or empty string, but received {name}"
        return answer | {"errorCode": ErrorCode.INVALID_REQUEST, "errorMessage": message}
    keys = asked["configurationKeys"]
    configs = [
        _config(config, layers, version, body["includeSynonyms"])
        for config, layers in _values(ctx, kind, name)
        if not keys or config in keys
    ]
    return answer | {"configs": configs}


def _values(ctx: Context, kind: int, name: str) -> Iterator[tuple[str, list[_Value]]]:
    """Yield the configurations of a resource, each with its values: the first one counts."""
    configs = ctx.cluster.configs()
    own = configs.get((kind, name), {})
    if kind == TOPIC_RESOURCE:
        own = own or built_in(name)  # the metadata has what brokers of its release create their own topics with
        for config in sorted(_TOPIC_CONFIGS.keys() | own.keys()):
            yield config, _topic_layers(config, own, configs, ctx.node_id)
        return
    sources = {
        GROUP_RESOURCE: _Source.GROUP,
        CLIENT_METRICS_RESOURCE: _Source.CLIENT_METRICS,
        BROKER_RESOURCE: _Source.BROKER,
    }
    source = _Source.DEFAULT_BROKER if kind == BROKER_RESOURCE and not name else sources.get(kind, _Source.DEFAULT)
    found = {config: [_Value(config, value, source)] for config, value in own.items()}
    if kind == BROKER_RESOURCE and name:
        shared = configs.get((BROKER_RESOURCE, ""), {})
        for config, value in shared.items():
            found.setdefault(config, []).append(_Value(config, value, _Source.DEFAULT_BROKER))
        log_dirs = ",".join(directory.path for directory in ctx.cluster.nodes[ctx.node_id].directories)
        for config, value in ((NODE_ID, name), (LOG_DIRECTORIES, log_dirs)):
            found[config] = [_Value(config, value, _Source.STATIC_BROKER)]
    yield from sorted(found.items())


def _topic_layers(
    config: str, own: Mapping[str, str], configs: Mapping[tuple[int, str], Mapping[str, str]], node_id: int
) -> list[_Value]:
    layers = []
    if config in own:
        layers.append(_Value(config, own[config], _Source.TOPIC))
    known = _TOPIC_CONFIGS.get(config)
    if known is None:
        return layers
    for resource, source in ((str(node_id), _Source.BROKER), ("", _Source.DEFAULT_BROKER)):
        value = configs.get((BROKER_RESOURCE, resource), {}).get(known.server_name)
        if value is not None:
            layers.append(_Value(known.server_name, value, source))
    name, value = _DEFAULTS_OF_BROKERS.get(config, (known.server_name, known.default)) or ("", known.default)
    layers.append(_Value(name, value, _Source.DEFAULT))
    return layers


def _config(name: str, layers: list[_Value], version: int, with_synonyms: bool) -> Fields:
    known = _TOPIC_CONFIGS.get(name)
    first = layers[0]
    is_hidden = is_secret(name)  # no client gets its value from a broker
    value = known.default if known and first.source is _Source.DEFAULT else first.value
    hidden = {"value": None} if is_hidden else {}
    answer: Fields = {
        "name": name,
        "value": None if is_hidden else value,
        "readOnly": first.source is _Source.STATIC_BROKER,
        "configSource": first.source,
        "isSensitive": is_hidden,
        "synonyms": [each._asdict() | hidden for each in layers if each.name] if with_synonyms else [],
    }
    if version >= 3:
        answer |= {"configType": known.type if known else _Type.STRING, "documentation": None}
    return answer


def list_config_resources(ctx: Context, request: Request) -> Fields:
    """Answer ListConfigResources; version 0 is about client metrics alone."""
    wanted = request.body["resourceTypes"] if request.version else [CLIENT_METRICS_RESOURCE]
    wanted = wanted or list(RESOURCE_TYPES)
    unknown = [kind for kind in wanted if kind not in RESOURCE_TYPES]
    if unknown:
        return {"errorCode": ErrorCode.UNSUPPORTED_VERSION}
    found = {(kind, name) for kind, name in ctx.cluster.configs() if kind in wanted and name}
    found |= {(TOPIC_RESOURCE, name) for name in ctx.cluster.topics if TOPIC_RESOURCE in wanted}
    found |= {(BROKER_RESOURCE, str(node)) for node in ctx.cluster.nodes if BROKER_RESOURCE in wanted}
    resources: list[Fields] = []
    for kind, name in sorted(found):
        resources.append({"resourceName": name} | ({"resourceType": kind} if request.version else {}))
    return {"configResources": resources}
