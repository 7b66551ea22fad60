"""`kdump fixture`: build, its refusals, and the lists that it prints."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from kdump.fixture.faults import FAULTS
from tests.commands.running import Run
from tests.fixture.building import SPECS, content

SPEC = """\
log_dirs: [{name: one}, {name: two}]
topics:
  - name: orders
    replicas: [one, two]
    steps:
      - append: {records: 20, batch_records: 4}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


def test_build(run: Run, spec: Path, tmp_path: Path) -> None:
    assert run("fixture", "build", spec, tmp_path / "data") == 0
    assert (run.lines, run.err) == ([f"{tmp_path / 'data'}: 2 partitions in 2 log directories"], "")
    assert run("verify", tmp_path / "data" / "one", tmp_path / "data" / "two", "--fail-on", "warning", "--deep") == 0


def test_build_with_faults(run: Run, spec: Path, tmp_path: Path) -> None:
    faults = ("--fault", "flip-payload-bit:log_dir=two,batch=1", "--fault", "index-missing")
    assert run("fixture", "build", spec, tmp_path / "data", *faults) == 0
    log = f"orders-0/{0:020}"
    assert run.lines[1].startswith(f"flip-payload-bit: {tmp_path}/data/two/{log}.log: byte ")
    assert run.lines[2] == f"index-missing: {tmp_path}/data/one/{log}.index"
    assert run("verify", tmp_path / "data" / "two") == 1
    assert "KD-LOG-CRC" in run.out


def test_rows_of_what_was_built(run: Run, spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "data"
    assert run("fixture", "build", spec, out, "--fault", "truncate-tail", "--cluster", "--format", "jsonl") == 0
    found = {row["path"]: row["size"] for row in run.of_type("file")}
    assert found == {str(path): path.stat().st_size for path in out.rglob("*") if path.is_file()}
    assert {row["path"] for row in run.of_type("logDirectory")} <= {str(out), *map(str, out.iterdir())}
    [fault] = run.of_type("fault")
    assert (fault["name"], fault["position"]) == ("truncate-tail", found[fault["path"]])
    nodes = run.of_type("node")
    assert [row["properties"]["node.id"] for row in nodes] == [str(row["nodeId"]) for row in nodes] == ["1", "2"]
    [summary] = run.of_type("summary")
    assert summary["logDirectories"] == len(run.of_type("logDirectory"))
    assert run("fixture", "build", spec, out, "--format", "jsonl") == 4
    assert [json.loads(line)["type"] for line in run.lines] == ["header", "summary"]


def test_the_seed_of_the_command_line_counts(run: Run, spec: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run("fixture", "build", spec, tmp_path / name, "--seed", seed) == 0
    a, b, c = (content(tmp_path / name) for name in "abc")
    assert a == b
    assert a != c


def test_standard_input(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SPEC.replace("orders", "7: x").encode())))
    assert run("fixture", "build", "-", tmp_path / "data") == 2
    assert run.err.startswith("kdump: standard input: line 3: ")


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["nowhere.yaml", "data"], 3, "nowhere.yaml does not exist"),
        (["spec.yaml", "."], 4, "there is something in it"),
        (["spec.yaml", "data", "--fault", "wrong-crcs"], 2, "'wrong-crcs' is not a fault: did you mean 'wrong-crc'?"),
        (["spec.yaml", "data", "--fault", "wrong-topic-id"], 2, "it needs a topic with two partitions"),
        (["spec.yaml", "data", "--fault", "wrong-crc:topic"], 2, "'topic' is not FIELD=VALUE"),
    ],
)
def test_refusals(
    arguments: list[str], code: int, complaint: str, run: Run, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(spec.parent)
    assert run("fixture", "build", *arguments) == code
    assert complaint in run.err
    assert "Traceback" not in run.err
    assert not (spec.parent / "data").exists()


def test_names_in_errors_cannot_drive_the_terminal(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text('topics:\n- name: "a\\e[31m/"\n')
    assert run("fixture", "build", tmp_path / "bad.yaml", tmp_path / "data") == 2
    assert r"line 2: topics[0].name: is 'a\x1b[31m/': expected the name of a topic" in run.err
    assert "\x1b" not in run.err


def test_faults(run: Run) -> None:
    assert run("fixture", "faults", "--format", "jsonl") == 0
    assert [row["name"] for row in run.rows] == list(FAULTS)
    assert {row["name"]: row["codes"] for row in run.rows}["wrong-crc"] == ["KD-LOG-CRC"]
    assert run("fixture", "faults") == 0
    assert "truncate-tail  (segment, bytes)" in run.lines
    assert "    The log ends inside its last batch." in run.lines
    assert any(line.startswith("    KD-LOG-TORN [") for line in run.lines)


def test_schema(run: Run) -> None:
    assert run("fixture", "schema") == 0
    assert set(json.loads(run.out)["properties"]) >= {"topics", "faults", "seed", "clock"}


def test_the_specifications_are_listed() -> None:
    readme = (SPECS.parent / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in SPECS.glob("*.yaml") if f"specs/{path.name}" not in readme] == []


def test_the_commands_without_arguments_start_lightly() -> None:
    import subprocess

    program = "import sys, kdump.commands.fixture; print(sorted({'yaml', 'fastjsonschema'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
