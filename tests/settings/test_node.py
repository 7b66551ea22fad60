"""What a server.properties says of the node itself."""

from __future__ import annotations

import pytest

from kdump.errors import ConfigError
from kdump.settings import node


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, None),
        ({"node.id": " 4 ", "broker.id": "5"}, 4),
        ({"broker.id": "5"}, 5),
        ({"broker.id": "-1"}, None),
        ({"node.id": ""}, None),
    ],
)
def test_the_nodes_id(properties: dict[str, str], expected: int | None) -> None:
    assert node.node_id(properties) == expected


def test_what_is_no_id_is_refused() -> None:
    with pytest.raises(ConfigError, match="'four' is not a node id"):
        node.node_id({"node.id": "four"})


def test_log_directories_roles_and_voters() -> None:
    assert node.log_directories({"log.dir": "/a", "log.dirs": "/b, /c,"}) == ("/b", "/c")
    assert node.log_directories({"log.dir": "/a"}) == ("/a",)
    assert node.log_directories({}) == ()
    assert node.roles({}) is None
    assert node.roles({"process.roles": "broker, controller"}) == frozenset({"broker", "controller"})
    assert node.voters({"controller.quorum.voters": "1@a:9093, 2@b:9093"}) == {1, 2}
    text = node.voters_text([(1, "a", 9093), (2, "::1", 9094)])
    assert text == "1@a:9093,2@[::1]:9094"
    assert node.voters({"controller.quorum.voters": text}) == {1, 2}
