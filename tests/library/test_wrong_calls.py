"""Each public function refuses what is of no use to it when it is called, and names the argument; nothing is changed.

A new parameter without a line in these tables fails.
"""

from __future__ import annotations

import inspect
import io
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import kdump
from kdump.errors import KdumpError
from kdump.operations.lookup import OffsetRequest

CORPUS = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"
HUGE = 1 << 80

_PATHS = (3, b"x", ["x"], True, -1, HUGE)
_WHOLE = ("1", b"1", [1], True, 1.5, HUGE, -HUGE)
_COUNT = (*_WHOLE, -1)
_NUMBER = ("1", b"1", [1], True, float("nan"), -1.0)
_TRUTH = ("no", b"1", 1, 0, [True], HUGE)
_TEXT = (3, b"x", ["x"], True, HUGE)
_WORD = ("nonsense", *_TEXT)
_SEVERAL = ("log", b"log", 3, [3], [None], [b"log"], [HUGE], {"log": "log"})
_OBJECT = ("x", 3, b"x", ["x"], {"x": "x"}, True, HUGE)
_PROPERTIES = (3, b"x", ["x"], True, HUGE, {"retention.ms": 3}, {3: "x"}, {"retention.ms": None})
_TOPICS: tuple[Any, ...] = (
    "x", 3, b"x", ["x"], {"orders": 3}, {3: {}}, {"orders": {"retention.ms": 3}}, {"orders": None},
)  # fmt: skip

KINDS: Mapping[str, tuple[Any, ...]] = {
    "path": (*_PATHS, None),
    "path?": _PATHS,
    "whole?": _WHOLE,
    "count": (*_COUNT, None),
    "count?": _COUNT,
    "number?": _NUMBER,
    "truth": (*_TRUTH, None),
    "truth?": _TRUTH,
    "text": (*_TEXT, None),
    "text?": _TEXT,
    "word": (*_WORD, None),
    "word?": _WORD,
    "several": (*_SEVERAL, None),
    "several?": _SEVERAL,
    "object": (*_OBJECT, None),
    "object?": _OBJECT,
    "properties": (*_PROPERTIES, None),
    "properties?": _PROPERTIES,
    "topics?": _TOPICS,
    "release?": (*_WORD, "3.0"),
    "loss?": ("some", b"all", [1], True, 1.5, -1, HUGE),
    "voters": ("1@kafka:9093", 3, b"x", None, [3], [None], [b"1@kafka:9093"], ["kafka"], ["1@kafka:0"], []),
    "numbers?": ("1", b"1", 1, ["1"], [None], [b"1"], [1.5], [-1], [HUGE], {"1": 1}),
    "lines": (*_SEVERAL, None, io.BytesIO(b"x")),
    "requests": ("1", b"1", 1, None, [1], [None], ["1"], [OffsetRequest(-1)], [OffsetRequest(HUGE)], {1: 1}),
    "source": ("x", b"x", 3, None, ["x"], io.StringIO("x")),
    "severities?": ("x", 3, b"x", ["x"], True, {"KD-*": 3}, {3: "note"}, {"KD-*": "grave"}, {"nonsense": "note"}),
    "texts?": ("x", 3, b"x", ["x"], True, {"ada": 3}, {3: "secret"}, {"ada": None}),
    "patterns": (*_SEVERAL, None, ["nonsense"]),
    "settings?": ("x", *_PROPERTIES),
    "places": ("x", b"x", 3, None, [3], [None], [b"x"], [], {"x": "x"}),
    "whole": (*_WHOLE, None),
    "mapping": ("x", 3, b"x", ["x"], True, None),
    "mapping?": ("x", 3, b"x", ["x"], True),
    "id?": ("x", 3, b"x", ["x"], True, HUGE),
    "bytes?": ("x", 3, ["x"], True, HUGE),
    "ids": ("1", b"1", 1, None, ["1"], [None], [1.5], [-2], [HUGE], {"1": 1}),
    "headers": ("x", b"x", 1, None, ["x"], [None], [("x", None)], [(b"x", 3)], {b"x": None}),
    "port": (*_COUNT, None, 1 << 16),
    "nodes": ("x", 3, b"x", ["x"], None, {"x": "x"}, {"x": -1}, {3: 3}, {"x": HUGE}, {"x": None}),
}
"""What is wrong for which kind of argument; where it may be None that is none of it."""

EVERYWHERE: Mapping[str, str] = {
    "accept_loss": "loss?",
    "apply": "truth",
    "apply_plan": "path?",
    "as_log": "truth",
    "backup_dir": "path?",
    "base_offset": "count?",
    "clean": "truth?",
    "config": "properties?",
    "errors": "word",
    "files": "path",
    "ignore_lock": "text?",
    "index_per_batch": "truth?",
    "isolation": "word",
    "jobs": "count",
    "keep_originals": "truth",
    "log_start_offset": "count?",
    "now": "whole?",
    "opening": "object?",
    "options": "object?",
    "output": "path?",
    "path": "path",
    "paths": "path",
    "plan_out": "path?",
    "recovery_point": "count?",
    "release": "release?",
    "topic_configs": "topics?",
    "trace": "object?",
}
OF_FUNCTIONS: Mapping[str, Mapping[str, str]] = {
    "append_from": {"source": "source", "format": "word", "reading": "object?"},
    "batch_fields": {"at": "count"},
    "compact": {
        "min_cleanable_ratio": "number?", "converts_old_formats": "truth?", "compares_keys": "truth", "passes": "count",
    },
    "doctor": {"max_duration": "number?"},
    "dump": {
        "selection": "object?", "include": "several", "batches_only": "truth", "limit": "count?", "tail": "count?",
        "follow": "truth", "raw": "truth", "schemas": "path?", "include_damaged": "truth", "kept": "truth",
        "use_indexes": "truth", "max_decompressed": "count",
    },
    "explain": {"text": "text"},
    "explain_log": {"lines": "lines"},
    "export": {
        "folder": "path", "threads": "count?", "engine": "object?", "schemas": "path?", "decode": "word?",
        "schema_id": "count?", "staging": "path?",
    },
    "heal": {"sources": "places", "unproved": "truth"},
    "log_directories": {"config": "properties"},
    "lookup": {"offset": "count?", "timestamp": "whole?"},
    "lookups": {"requests": "requests"},
    "lost_records": {"leader": "count", "folder": "path"},
    "ls": {"count": "truth", "metadata": "truth", "outline": "truth"},
    "metadata": {"at": "count?", "secrets": "truth"},
    "partitions": {"topics": "several", "numbers": "numbers?"},
    "prune": {"older_than_ms": "count", "change": "text?"},
    "rebuild_index": {"kinds": "several?", "wants_all": "truth"},
    "repair": {"request": "object?", "only_copy": "truth"},
    "resurrect": {"into": "path?", "in_place": "truth", "wanted": "object?"},
    "retain": {"settings": "settings?", "high_watermark": "count?", "tombstones": "truth"},
    "schemas": {"source": "path?", "deep": "truth"},
    "serve": {
        "on_damage": "word", "passwords": "texts?", "has_metadata_users": "truth", "ignores_lock": "truth",
        "say": "object", "log": "object?",
    },
    "set_voters": {"voters": "voters", "others_are_gone": "truth", "accepts_loss": "truth"},
    "transactions": {"max_timeout_ms": "count?", "keep_ended": "truth"},
    "undo": {"change": "text", "close": "truth"},
    "verify": {
        "deep": "truth", "retention_ms": "whole?", "max_timeout_ms": "count?", "since_checkpoint": "truth",
        "drops_pages": "truth", "limit": "count", "select": "patterns", "ignore": "patterns",
        "severities": "severities?", "max_per_code": "count", "max_rate": "count?", "max_duration": "number?",
        "resume": "path?", "state": "path?",
    },
}  # fmt: skip
"""What each parameter is, by its name: one of KINDS."""
OF_CLASSES: Mapping[str, Mapping[str, str]] = {
    "AppendOptions": {
        "packing": "object", "producer_id": "count?", "producer_epoch": "count?", "base_sequence": "count?",
        "ending": "word?", "transaction_version": "count?", "coordinator_epoch": "count?", "leader_epoch": "count?",
        "keeps_offsets": "truth", "needs_repack": "several",
    },
    "ControllerAt": {"host": "text", "port": "count", "listener": "text", "node": "count?"},
    "DumpLogOptions": {
        "print_data": "truth", "deep": "truth", "verify_index_only": "truth", "index_sanity_check": "truth",
        "skip_record_metadata": "truth", "max_message_size": "whole", "max_bytes": "whole", "key_decoder": "word",
        "value_decoder": "word", "topic_decoder": "word?", "release": "object", "refused": "mapping",
        "deprecations": "several",
    },
    "ExportOptions": {
        "format": "word", "by": "several", "codec": "word", "columns": "several", "selection": "object",
        "isolation": "word", "control": "truth", "skips_damage": "truth", "use_indexes": "truth", "limit": "count",
        "decoding": "mapping?", "target_bytes": "count?",
    },
    "NewLog": {"start_offset": "count", "topic_id": "id?"},
    "Opening": {
        "clean": "truth?", "recovery_point": "count?", "log_start_offset": "count?", "clock": "object",
        "create": "object?", "ignore_lock": "text?", "backup": "truth", "rules": "object?", "any_producer_id": "truth",
    },
    "Packing": {
        "magic": "count", "codec": "count", "level": "whole?", "batch_bytes": "count", "batch_records": "count",
        "producer_id": "whole", "producer_epoch": "whole", "base_sequence": "whole", "transactional": "truth",
    },
    "Reading": {
        "timestamp": "object", "keeps_batches": "truth", "key_separator": "bytes?", "null_marker": "bytes?",
    },
    "Request": {"strategy": "word", "kinds": "several?", "limit": "count", "lost_markers": "word", "topic_id": "text?"},
    "Selection": {
        "start_offset": "count?", "stop_offset": "count?", "since": "whole?", "until": "whole?",
        "producer_ids": "ids", "key": "object?", "headers": "headers", "visible": "object?",
    },
    "ServeOptions": {
        "host": "text", "port": "port", "advertised": "text?", "max_connections": "count",
        "max_request_bytes": "count", "commits": "word", "tls": "object?",
    },
    "StatsOptions": {
        "sample": "count", "records": "truth", "key_memory": "count", "limit": "count", "isolation": "word",
    },
    "VoterAt": {"id": "count", "host": "text", "port": "port", "listener": "text"},
    "Wanted": {
        "nodes": "count?", "map": "nodes", "cluster_id": "text?", "release": "object?", "metadata": "text?",
        "controller": "object", "is_dynamic": "truth?", "new_empty": "truth", "unknown_topics": "word?",
        "partitions": "nodes", "holds_retention": "truth", "has_remote_storage": "truth",
        "accept_loss": "whole?", "properties": "several",
    },
}  # fmt: skip
"""The same of the fields of the classes that arguments are made of."""


class Place:
    """Directories that calls are about, and what they are at first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = shutil.copytree(CORPUS / "s-src-txn", folder / "data")
        self.other = shutil.copytree(CORPUS / "s-src-none", folder / "other")
        self.offsets = shutil.copytree(CORPUS / "f-consumer-offsets", folder / "offsets")
        self.state = shutil.copytree(CORPUS / "f-transaction-state", folder / "state")
        self.quorum = shutil.copytree(CORPUS / "f-cluster-metadata", folder / "quorum")
        self.partition = self.data / "topic-0"
        self.log = self.partition / "00000000000000000000.log"
        self.content = self.now()

    def now(self) -> dict[str, tuple[int, bytes]]:
        """All that there is, with times of change."""
        return {
            str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in self.folder.rglob("*")
        }

    def call(self, name: str, **given: object) -> object:
        """Call a function with arguments of which nothing is wrong but what is given."""
        first = POSITIONAL[name](self) if name in POSITIONAL else {"paths": self.data}
        takes = (NEEDED[name](self) if name in NEEDED else {}) | given
        places = [takes.pop(key, value) for key, value in first.items()]
        return getattr(kdump, name)(*places, **takes)


POSITIONAL: Mapping[str, Callable[[Place], dict[str, Any]]] = {
    "append": lambda place: {"path": place.partition},
    "append_from": lambda place: {"path": place.partition, "source": io.BytesIO()},
    "batch_fields": lambda place: {"path": place.log},
    "changes": lambda place: {"path": place.data},
    "dump_log": lambda place: {"files": place.log},
    "explain": lambda _: {},
    "explain_log": lambda _: {"lines": []},
    "groups": lambda place: {"paths": place.offsets},
    "log_directories": lambda _: {"config": {"log.dirs": "/data"}},
    "lookups": lambda place: {"path": place.partition, "requests": [OffsetRequest(1)]},
    "metadata": lambda place: {"path": place.quorum},
    "open_directory": lambda place: {"path": place.data},
    "open_log": lambda place: {"path": place.partition},
    "open_segment": lambda place: {"path": place.log},
    "prune": lambda place: {"path": place.data},
    "quorum": lambda place: {"paths": place.quorum},
    "resurrect": lambda place: {"paths": place.quorum},
    "roll": lambda place: {"path": place.partition},
    "set_voters": lambda place: {"paths": place.quorum},
    "transactional_ids": lambda place: {"paths": place.state},
    "undo": lambda place: {"path": place.data},
}
NEEDED: Mapping[str, Callable[[Place], dict[str, Any]]] = {
    "export": lambda place: {"folder": place.folder / "out"},
    "heal": lambda place: {"sources": [place.other]},
    "lookup": lambda _: {"offset": 1},
    "metadata": lambda _: {"errors": "skip"},
    "lost_records": lambda place: {"leader": 1, "folder": place.folder / "lost"},
    "resurrect": lambda _: {"in_place": True},
    "set_voters": lambda _: {"voters": ["1@kafka:9093"]},
    "undo": lambda _: {"change": "20260101T000000"},
}
USES: Mapping[str, Callable[[Place, Any], object]] = {
    "AppendOptions": lambda place, options: place.call("append_from", options=options),
    "ControllerAt": lambda place, at: place.call("resurrect", wanted=kdump.Wanted(controller=at)),
    "DumpLogOptions": lambda place, options: place.call("dump_log", options=options),
    "ExportOptions": lambda place, options: place.call("export", options=options),
    "NewLog": lambda place, new: place.call("append", opening=kdump.Opening(create=new)),
    "Opening": lambda place, opening: place.call("append", opening=opening),
    "Packing": lambda place, packing: place.call("append_from", options=kdump.AppendOptions(packing)),
    "Reading": lambda place, reading: place.call("append_from", reading=reading),
    "Request": lambda place, request: place.call("repair", request=request),
    "Selection": lambda place, selection: place.call("dump", selection=selection),
    "ServeOptions": lambda place, options: place.call("serve", options=options),
    "StatsOptions": lambda place, options: place.call("stats", options=options),
    "VoterAt": lambda place, voter: place.call("set_voters", voters=[voter]),
    "Wanted": lambda place, wanted: place.call("resurrect", wanted=wanted),
}
FIELDS: Mapping[str, dict[str, Any]] = {
    "Reading": {"timestamp": lambda: 0},
    "VoterAt": {"id": 1, "host": "kafka", "port": 9093},
}
"""What is given of a class whose fields have no defaults."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    pytest.importorskip("pyarrow")
    return Place(tmp_path_factory.mktemp("wrong"))


def functions() -> Iterator[tuple[str, str]]:
    """Each public function with each of its parameters."""
    for name in kdump.__all__:
        found = getattr(kdump, name)
        if inspect.isfunction(found):
            yield from ((name, parameter) for parameter in inspect.signature(found).parameters)


def refused(name: str, call: Callable[[object], object], wrong: object) -> str:
    """Why a call did not refuse what is wrong as it should; empty where it did."""
    try:
        call(wrong)
    except (KdumpError, TypeError, ValueError) as error:
        is_named = re.search(rf"(?<![\w-]){name}s?(?!\w)", str(error))
        problem = "" if is_named else f"{type(error).__name__}: {error}"
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    else:
        problem = "nothing"
    return problem and f"{name}={wrong!r}: {problem}"


def problems(place: Place, name: str, call: Callable[[object], object], kind: str) -> list[str]:
    """Why calls with what is wrong for a kind were not refused, or that one of them wrote something."""
    texts = [refused(name, call, wrong) for wrong in KINDS[kind]]
    now = place.now()
    if now != place.content:
        place.content = now
        texts.append("something was written")
    return [text for text in texts if text]


@pytest.mark.parametrize(("function", "parameter"), list(functions()))
def test_what_is_wrong_is_named_by_the_call(place: Place, function: str, parameter: str) -> None:
    kind = OF_FUNCTIONS.get(function, {}).get(parameter) or EVERYWHERE[parameter]
    assert problems(place, parameter, lambda wrong: place.call(function, **{parameter: wrong}), kind) == []


@pytest.mark.parametrize(
    ("owner", "field"), [(owner, field) for owner, fields in OF_CLASSES.items() for field in fields]
)
def test_what_is_wrong_in_options_is_named_by_the_call(place: Place, owner: str, field: str) -> None:
    made = getattr(kdump, owner)

    def call(wrong: object) -> object:
        return USES[owner](place, made(**{**FIELDS.get(owner, {}), field: wrong}))

    assert problems(place, field, call, OF_CLASSES[owner][field]) == []


def test_all_fields_of_all_options_are_known() -> None:
    results = {"BadBatch", "Batch", "Damage", "KdumpError", "Message", "Problem", "ProblemError", "Record",
               "RefusedError"}  # fmt: skip
    for name in kdump.__all__:
        made = getattr(kdump, name)
        if inspect.isclass(made) and name not in results and not hasattr(made, "__members__"):
            assert set(inspect.signature(made).parameters) == set(OF_CLASSES[name]), name


@pytest.mark.parametrize("function", sorted({name for name, _ in functions()} - {"export", "heal", "schemas", "undo"}))
def test_nothing_else_is_wrong_with_these_calls(place: Place, function: str) -> None:
    found = place.call(function)
    if isinstance(found, Iterator):
        assert list(found) is not None
    elif isinstance(found, AbstractContextManager) and function in ("append", "serve"):
        with found:
            pass


def test_a_wrong_request_of_an_iterator_is_named_when_it_comes(place: Place) -> None:
    answers = kdump.lookups(place.partition, iter([OffsetRequest(1), "x"]))  # type: ignore[arg-type]
    assert next(answers)
    with pytest.raises(TypeError, match="requests is 'x'"):
        next(answers)
