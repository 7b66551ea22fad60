"""The fixture `kafka_server`: the example of the docs runs as it stands there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.fixture.test_plugin import pytest_in
from tests.serve.data import build

ROOT = Path(__file__).resolve().parent.parent.parent

USES = '''
import kafka

def offsets(server):
    consumer = kafka.KafkaConsumer(bootstrap_servers=server)
    partition = kafka.TopicPartition("payments", 0)
    found = consumer.end_offsets([partition])[partition]
    consumer.close()
    return found

def test_a_directory(kafka_server):
    assert offsets(kafka_server("data")) == 15

def test_two_servers(kafka_server):
    first, second = kafka_server(), kafka_server("data")
    assert first != second
    assert offsets(second) == 15
'''


def test_the_example_in_the_docs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/serve.md").read_text(), re.DOTALL)
    (example,) = (block for block in blocks if "kafka_server" in block)
    (tmp_path / "test_example.py").write_text(example)
    done = pytest_in(tmp_path, "-q")
    assert "1 passed" in done.stdout, done.stdout


def test_directories_are_served(tmp_path: Path) -> None:
    build(tmp_path / "data")
    before = sorted(path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*"))
    (tmp_path / "test_uses.py").write_text(USES)
    done = pytest_in(tmp_path, "-q")
    assert "2 passed" in done.stdout, done.stdout
    assert sorted(path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")) == before
    shutil.rmtree(tmp_path / "data")
