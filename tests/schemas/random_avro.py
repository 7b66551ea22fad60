"""Random Avro schemas with random values, and what these are to a deserializer, to JSON and to Arrow."""

from __future__ import annotations

import datetime
import json
import random
import struct
import uuid
from base64 import b64encode
from collections.abc import Callable
from decimal import Context, Decimal
from functools import partial
from typing import Any, NamedTuple

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1)
Above = tuple[str, ...]


class Value(NamedTuple):
    """A value as it is written, read, shown as JSON, and in Arrow (times as their numbers, `Json` for JSON text)."""

    written: Any
    read: Any
    shown: Any
    native: Any


class Json(NamedTuple):
    """What is JSON text in a column."""

    value: Any


class Node(NamedTuple):
    """A schema; `group` is what a union may have one branch of, `least` the bytes that its values take at least.

    `make` gets the names of the records that the value is in, `default` is a JSON default and its native value.
    """

    schema: Any
    make: Callable[[Above], Value]
    group: str
    least: int = 1
    name: str = ""
    default: tuple[Any, Any] | None = None


def same(value: Any) -> Value:
    return Value(value, value, value, value)


def base64(data: bytes) -> Any:
    return {"base64": b64encode(data).decode()}


def iso(number: int, digits: int, zone: str) -> str:
    seconds, part = divmod(number, 10**digits)
    return f"{(EPOCH + datetime.timedelta(seconds=seconds)).isoformat()}.{part:0{digits}}{zone}"


class Avro:
    """Makes schemas by chance. Named types that are complete may be used again by their names."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._count = 0
        self._named: list[Node] = []
        self._open: list[tuple[str, Node]] = []

    def any(self, depth: int, namespace: str = "") -> Node:
        chance = self.chance
        if depth > 0 and chance.random() < 0.6:
            kind = chance.choice((self.record, self.array, self.map, self.union, self.union))
            return kind(depth - 1, namespace)
        if self._named and chance.random() < 0.2:
            return self.again(chance.choice(self._named), namespace)
        kinds = (self.primitive, self.primitive, self.logical, self.logical, self.decimal)
        if chance.random() < 0.3:
            return chance.choice((self.enum, self.fixed))(namespace)
        return chance.choice(kinds)()

    # --- leaves

    def primitive(self, kind: str = "") -> Node:
        chance = self.chance
        kind = kind or chance.choice(("boolean", "int", "long", "float", "double", "bytes", "string", "ignored"))
        if kind == "boolean":
            return Node(kind, lambda _: same(chance.random() < 0.5), "boolean", 1, default=(True, True))
        if kind in ("int", "long"):
            bits = 31 if kind == "int" else 63
            return Node(
                kind, lambda _: same(chance.randrange(-(1 << bits), 1 << bits) >> chance.randrange(bits)), "number",
                default=(-7, -7),
            )  # fmt: skip
        if kind in ("float", "double"):
            return Node(kind, lambda _: self._float(kind), "number", 4, default=(1.5, 1.5))
        if kind == "bytes":
            return Node(kind, lambda _: self._bytes(chance.randbytes(chance.randrange(6))), "bytes", 1,
                        default=("\u0001\u00ff", b"\1\xff"))  # fmt: skip
        schema: Any = "string"
        if kind == "ignored":  # logical types that are not for this type, or that nobody knows
            schema = {"type": "string", "logicalType": chance.choice(("date", "decimal", "whatever")), "more": [1]}
        return Node(schema, lambda _: same(self.text()), "text", default=("dé", "dé"))

    def text(self) -> str:
        return "".join(self.chance.choice("ab \"\\\n\u20ac\U0001f600\0{") for _ in range(self.chance.randrange(6)))

    def _float(self, kind: str) -> Value:
        value = self.chance.choice((0.0, -0.0, 0.1, 1e30, float("inf"), float("-inf"), float("nan"), -3.25))
        if kind == "float":
            value = struct.unpack("f", struct.pack("f", value))[0]
        special = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
        return Value(value, value, special.get(str(value), value), value)

    def _bytes(self, data: bytes) -> Value:
        return Value(data, data, base64(data), data)

    def logical(self, kind: str = "") -> Node:
        chance = self.chance
        kinds = ("date", "time-millis", "time-micros", "uuid", "duration", "fixed-uuid")
        stamps = [f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")]
        kind = kind or chance.choice((*kinds, *stamps))
        if kind == "date":
            def date(_: Above) -> Value:
                days = chance.randrange(-700_000, 2_900_000)
                day = datetime.date(1970, 1, 1) + datetime.timedelta(days)
                return Value(day, day, day.isoformat(), days)
            return Node({"type": "int", "logicalType": kind}, date, "number", default=(10, 10))
        if kind.startswith("time-"):
            digits = 3 if kind == "time-millis" else 6
            def time(_: Above) -> Value:
                number = chance.randrange(86_400 * 10**digits)
                moment = (EPOCH + datetime.timedelta(microseconds=number * 10 ** (6 - digits))).time()
                return Value(moment, moment, iso(number, digits, "").partition("T")[2], number)
            base = "int" if digits == 3 else "long"
            return Node({"type": base, "logicalType": kind}, time, "number", default=(5, 5))
        if "timestamp" in kind:
            return self._timestamp(kind)
        if kind == "uuid":
            def text(_: Above) -> Value:
                made = uuid.UUID(bytes=chance.randbytes(16))
                return Value(made, made, str(made), str(made))
            return Node({"type": "string", "logicalType": kind}, text, "text")
        size = 12 if kind == "duration" else 16
        self._count += 1
        name = f"L{self._count}"
        def fixed(_: Above) -> Value:
            data = chance.randbytes(size)
            if size == 12:
                return self._bytes(data)
            return Value(data, data, str(uuid.UUID(bytes=data)), str(uuid.UUID(bytes=data)))
        schema = {"type": "fixed", "name": name, "size": size, "logicalType": kind.removeprefix("fixed-")}
        return Node(schema, fixed, "bytes", size)

    def _timestamp(self, kind: str) -> Node:
        chance = self.chance
        digits = {"millis": 3, "micros": 6, "nanos": 9}[kind.rpartition("-")[2]]
        is_local = kind.startswith("local")

        def stamp(_: Above) -> Value:
            number = chance.randrange(-62_135_596_800, 253_402_300_800) * 10**digits + chance.randrange(10**digits)
            shown = None
            if digits == 9:  # what the library does not know it gives as a number
                number = chance.randrange(-(1 << 63), 1 << 63)
                shown = iso(number, digits, "" if is_local else "Z")
                return Value(number, number, shown, number)
            moment = EPOCH + datetime.timedelta(microseconds=number * 10 ** (6 - digits))
            if not is_local:
                moment = moment.replace(tzinfo=UTC)
            return Value(moment, moment, iso(number, digits, "" if is_local else "Z"), number)

        return Node({"type": "long", "logicalType": kind}, stamp, "number", default=(1234, 1234))

    def decimal(self) -> Node:
        chance = self.chance
        is_fixed = chance.random() < 0.5
        size = chance.choice((1, 4, 9, 16, 20, 34))
        most = len(str((1 << (8 * size - 1)) - 1)) - 1
        precision = chance.randint(1, most) if is_fixed else chance.choice((1, 9, 18, 38, 39, 76, 90))
        scale = chance.choice((None, 0, precision, precision // 2))
        schema = {"type": "bytes", "logicalType": "decimal", "precision": precision}
        if is_fixed:
            self._count += 1
            schema |= {"type": "fixed", "name": f"D{self._count}", "size": size}
        if scale is not None:
            schema["scale"] = scale
        places = scale or 0

        def make(_: Above) -> Value:
            top = 10 ** chance.randint(0, precision)
            unscaled = chance.randrange(-top + 1, top)
            value = Decimal(unscaled).scaleb(-places, Context(prec=200))
            shown = f"{value:.{places}f}"
            return Value(value, value, shown, value if precision <= 76 else shown)

        return Node(schema, make, "bytes", size if is_fixed else 1)

    # --- named

    def _name(self, letter: str, namespace: str) -> tuple[dict[str, Any], str, str]:
        """The name of a new type as it is written, in full, and the namespace within it."""
        self._count += 1
        name = f"{letter}{self._count}"
        how = self.chance.randrange(4)
        if how == 0:
            inner = self.chance.choice(("a", "a.b", "org.x"))
            return {"name": name, "namespace": inner}, f"{inner}.{name}", inner
        if how == 1:
            return {"name": f"z.{name}"}, f"z.{name}", "z"
        full = f"{namespace}.{name}" if namespace else name
        return {"name": name}, full, namespace

    def again(self, node: Node, namespace: str) -> Node:
        around, _, short = node.name.rpartition(".")
        if not around and namespace:
            return self.primitive()  # what has no namespace has no name within one
        is_short = around == namespace and self.chance.random() < 0.5
        return node._replace(schema=short if is_short else node.name, default=None)

    def enum(self, namespace: str = "") -> Node:
        said, full, _ = self._name("E", namespace)
        symbols = [f"S{n}" for n in range(self.chance.randint(1, 5))]
        schema = {"type": "enum", **said, "symbols": symbols}
        node = Node(schema, lambda _: same(self.chance.choice(symbols)), "text", 1, full, (symbols[-1], symbols[-1]))
        self._named.append(node)
        return node

    def fixed(self, namespace: str = "") -> Node:
        said, full, _ = self._name("F", namespace)
        size = self.chance.choice((1, 3, 16))
        default = ("\u00fe" * size, b"\xfe" * size)
        node = Node({"type": "fixed", **said, "size": size}, lambda _: self._bytes(self.chance.randbytes(size)),
                    "bytes", size, full, default)  # fmt: skip
        self._named.append(node)
        return node

    def record(self, depth: int, namespace: str = "") -> Node:
        said, full, inner = self._name("R", namespace)
        schema: dict[str, Any] = {"type": "record", **said, "doc": "…", "fields": []}
        members: list[tuple[str, Node]] = []

        def make(above: Above) -> Value:
            inside = (*above, full)
            values = {name: node.make(inside) for name, node in members}
            written, read, shown, native = ({name: each[at] for name, each in values.items()} for at in range(4))
            return Value(written, read, shown, Json(shown) if full in above or not members else native)

        node = Node(schema, make, "record", 1, full)
        self._open.append((full, node))
        for at in range(self.chance.choice((0, 1, 2, 3, 4))):
            if self.chance.random() < 0.2 and (inner or "." not in full):
                member = self._within(node, inner)
            else:
                member = self.any(depth, inner)
            members.append((f"f{at}", member))
            schema["fields"].append({"name": f"f{at}", "type": member.schema})
        self._open.pop()
        node = node._replace(least=sum(member.least for _, member in members))
        self._named.append(node)
        return node

    def _within(self, node: Node, namespace: str) -> Node:
        """A record within itself: optional, in an array, or in a map."""
        chance = self.chance
        name = node.name.rpartition(".")[2] if chance.random() < 0.5 else node.name

        def inner(above: Above) -> Value | None:
            return node.make(above) if len(above) < 4 and chance.random() < 0.6 else None

        kind = chance.randrange(3)
        if kind == 0:
            return Node(["null", name], lambda above: inner(above) or same(None), "union")

        def several(above: Above) -> Value:
            found = [inner(above) for _ in range(chance.randrange(3))]
            values = [each for each in found if each is not None]
            if kind == 1:
                return Value(*([each[at] for each in values] for at in range(4)))
            return Value(*({f"k{n}": each[at] for n, each in enumerate(values)} for at in range(4)))

        schema = {"type": "array", "items": name} if kind == 1 else {"type": "map", "values": name}
        return Node(schema, several, "array" if kind == 1 else "map")

    # --- of others

    def array(self, depth: int, namespace: str = "") -> Node:
        known = len(self._named)
        items = self.any(depth, namespace)
        if not items.least:  # their number has no bound: refused
            del self._named[known:]
            items = self.primitive()

        def make(above: Above) -> Value:
            values = [items.make(above) for _ in range(self.chance.randrange(4))]
            return Value(*([each[at] for each in values] for at in range(4)))

        return Node({"type": "array", "items": items.schema}, make, "array", default=([], []))

    def map(self, depth: int, namespace: str = "") -> Node:
        values = self.any(depth, namespace)

        def make(above: Above) -> Value:
            made = {self.text() or "k": values.make(above) for _ in range(self.chance.randrange(4))}
            return Value(*({name: each[at] for name, each in made.items()} for at in range(4)))

        return Node({"type": "map", "values": values.schema}, make, "map", default=({}, {}))

    def union(self, depth: int, namespace: str = "") -> Node:
        branches: list[Node] = []
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            known = len(self._named)
            found = self.any(depth, namespace)
            if isinstance(found.schema, dict) and found.schema.get("logicalType") == "date":
                found = self.primitive("int")  # the official serializer takes any text beside it for a date
            groups = {each.group for each in branches}
            names = {each.name for each in branches}
            if found.group == "union" or (found.group in groups and (found.group != "record" or found.name in names)):
                del self._named[known:]
                found = self.record(0, namespace)
            if {found.group, *groups} >= {"record", "map"}:
                del self._named[known:]
                continue
            branches.append(found)
        has_null = self.chance.random() < 0.7 or not branches
        schema = [each.schema for each in branches]
        place = self.chance.choice((0, len(schema)))
        if has_null:
            schema.insert(place, "null")

        def make(above: Above) -> Value:
            if not branches or (has_null and self.chance.random() < 0.3):
                return same(None)
            branch = self.chance.choice(branches)
            value = branch.make(above)
            if branch.group == "record":
                value = value._replace(written=(branch.name, value.written))
            return value if len(branches) == 1 else value._replace(native=Json(value.shown))

        default = (None, None) if has_null and place == 0 else None
        return Node(schema, make, "union", default=default)


class Evolution(NamedTuple):
    """A writer's schema, a reader's one, and the writer's values with what the reader has of them."""

    writer: Any
    reader: Any
    make: Callable[[], tuple[Value, Any]]


Step = tuple[str, Node, Callable[[Value], Any] | None]


def evolution(chance: random.Random) -> Evolution:
    """A record whose fields are dropped, added with defaults, renamed, promoted, or have fewer symbols."""
    old: list[dict[str, Any]] = []
    new: list[dict[str, Any]] = []
    steps: list[Step] = []
    added: dict[str, Any] = {}
    avro = Avro(chance)
    for at in range(chance.randint(3, 7)):
        name = f"f{at}"
        avro._named.clear()
        how = chance.choice(("same", "drop", "add", "rename", "promote", "symbols"))
        if how == "promote":
            source, target = chance.choice(
                [("int", "long"), ("int", "double"), ("long", "double"), ("float", "double"), ("string", "bytes"),
                 ("int", ["null", "long"]), (["null", "int"], ["null", "long"])]
            )  # fmt: skip
            base = avro.primitive(source if isinstance(source, str) else "int")
            old.append({"name": name, "type": source})
            new.append({"name": name, "type": target})
            steps.append((name, base, _promotion(target)))
            continue
        node = avro.enum() if how == "symbols" else avro.any(1)
        if how == "add":
            while node.default is None:
                avro._named.clear()
                node = avro.any(1)
            new.insert(chance.randrange(len(new) + 1), {"name": name, "type": node.schema, "default": node.default[0]})
            added[name] = node.default[1]
            continue
        old.append({"name": name, "type": node.schema})
        if how == "drop":
            steps.append((name, node, None))
        elif how == "symbols":
            kept = ["OTHER", *node.schema["symbols"][::-2]]
            new.append({"name": name, "type": {**node.schema, "symbols": kept, "default": "OTHER"}})
            steps.append((name, node, partial(_symbol, kept)))
        elif how == "rename":
            new.append({"name": f"new_{name}", "type": node.schema, "aliases": [name]})
            steps.append((name, node, _native))
        else:
            new.append({"name": name, "type": node.schema})
            steps.append((name, node, _native))
    names = {alias: field["name"] for field in new for alias in field.get("aliases", ())}

    def make() -> tuple[Value, Any]:
        values = {name: node.make(("Old",)) for name, node, _ in steps}
        whole = Value(*({name: value[at] for name, value in values.items()} for at in range(4)))
        read = dict(added)
        for name, _, convert in steps:
            if convert is not None:
                read[names.get(name, name)] = convert(values[name])
        return whole, read

    reader = {"type": "record", "name": "Old", "fields": new or [{"name": "x", "type": "int", "default": 1}]}
    if not new:
        added["x"] = 1
    return Evolution({"type": "record", "name": "Old", "fields": old}, reader, make)


def _native(value: Value) -> Any:
    return value.native


def _symbol(kept: list[str], value: Value) -> Any:
    return value.native if value.native in kept else "OTHER"


def _promotion(target: Any) -> Callable[[Value], Any]:
    if target == "double":
        return lambda value: float(value.native)
    return lambda value: value.native.encode() if target == "bytes" else value.native


def text_of(schema: Any) -> str:
    return json.dumps(schema, ensure_ascii=False)
