"""Fuzz the compiled kernels, guided by what they took: libFuzzer, with a mutator that knows Kafka's files.

    ./dev campaign guided [--seconds 600] [--seed 1] [--resume FOLDER]
    ./dev campaign guided --input FILE      looks at one input again

An input is a log, an index, a snapshot, a checkpoint, texts or new records. What the kernels read lies before a page
that nobody may read. One input of 512 is also given to the portable kernels, which must say the same. The campaign ends
with exit code 1 at the first input that ends the process, and says where it is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path
from typing import IO, Any

from tests.campaigns.guided.building import CannotBuildError, built, loaded
from tests.campaigns.guided.corpus import write_corpus

ROOM = 256
"""Bytes for the figures that the process counts."""
INTERRUPTED = 72
"""The exit code of libFuzzer where a signal ends it."""
NOT_CALLS = ("inputs", "compared")


def main() -> int:
    """Run a campaign, or one input."""
    parser = argparse.ArgumentParser(description="Coverage-guided fuzzing of the compiled kernels.")
    parser.add_argument("--seconds", type=int, default=600, help="how long (default: %(default)s)")
    parser.add_argument("--inputs", type=int, default=-1, metavar="N", help="stop after so many inputs")
    parser.add_argument("--seed", type=int, default=1, help="of libFuzzer's random numbers (default: %(default)s)")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="keep corpus and figures there, and go on")
    parser.add_argument("--sample", type=int, default=512, help="one input of so many is compared (a power of two)")
    parser.add_argument("--longest", type=int, default=1024, help="bytes of an input, at most (default: %(default)s)")
    parser.add_argument("--input", type=Path, metavar="FILE", help="only this input, as an earlier run kept it")
    options = parser.parse_args()
    if options.sample < 1 or options.sample & (options.sample - 1):
        parser.error("--sample is no power of two")
    try:
        module = built()
    except CannotBuildError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as passing:
        folder = options.resume or Path(passing)
        return _campaign(options, module, folder.resolve())


def _campaign(options: argparse.Namespace, module: Path, folder: Path) -> int:
    corpus = folder / "corpus"
    write_corpus(corpus)
    figures = folder / "figures"
    figures.write_bytes(bytes(ROOM))
    arguments = [f"-artifact_prefix={Path.cwd()}/guided-", "-rss_limit_mb=4096", "-timeout=60", "-detect_leaks=0"]
    if options.input:
        arguments += [str(options.input)]
    else:
        arguments += [
            f"-seed={options.seed}",
            f"-runs={options.inputs}",
            f"-max_total_time={options.seconds}",
            f"-max_len={options.longest}",
            "-reload=0",
            str(corpus),
        ]
    sample = 0 if options.input else options.sample - 1
    start = time.monotonic()
    command = [sys.executable, "-m", "tests.campaigns.guided.child", str(module), str(figures), str(sample), *arguments]
    with (folder / "libfuzzer.log").open("ab") as log:
        code = _run(command, log)
    took = time.monotonic() - start
    text = (folder / "libfuzzer.log").read_text(errors="replace")
    if code:
        print("\n".join(text.splitlines()[-40:]))
        print("look at it again: ./dev campaign guided --input FILE")
        return 1
    if options.input:
        print("nothing found")
        return 0
    _report(folder, _run_of(options, figures, module, took, corpus))
    return 0


def _run(command: list[str], log: IO[bytes]) -> int:
    # Kernels ask for 16 MiB of zeros, which are to be had from the system, not to be written.
    environment = dict(os.environ) | {"MALLOC_MMAP_THRESHOLD_": "1048576"}
    with subprocess.Popen(command, stdout=log, stderr=log, env=environment) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            code = process.wait()
    return 0 if code in (0, INTERRUPTED) else 1


def _run_of(options: argparse.Namespace, figures: Path, module: Path, took: float, corpus: Path) -> dict[str, Any]:
    """The figures of this run."""
    counted = array("q", figures.read_bytes())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seed": options.seed,
        "seconds": round(took),
        "cpu": round(used.ru_utime + used.ru_stime),
        "corpus": sum(1 for _ in corpus.iterdir()),
        **dict(zip(loaded(module).FIGURE_NAMES, counted, strict=False)),
    }


def _report(folder: Path, run: dict[str, Any]) -> None:
    """Add the run to those before it, and say what they come to."""
    kept = folder / "runs.json"
    runs = [*(json.loads(kept.read_text()) if kept.exists() else ()), run]
    kept.write_text(json.dumps(runs, indent=1) + "\n")
    counts = [name for name in run if name not in ("seed", "seconds", "cpu", "corpus")]
    total = {name: sum(one.get(name, 0) for one in runs) for name in counts}
    calls = sum(count for name, count in total.items() if name not in NOT_CALLS)
    seconds, cpu = (sum(one[name] for one in runs) for name in ("seconds", "cpu"))
    print(f"{len(runs)} runs, {seconds} s, {cpu} s of processor time, nothing found")
    print(f"{total['inputs']:,} inputs, {calls:,} calls of kernels, {total['compared']:,} inputs compared")
    print(f"{run['corpus']:,} inputs in the corpus")
    print(", ".join(f"{name} {total[name]:,}" for name in counts if name not in NOT_CALLS))


if __name__ == "__main__":
    sys.exit(main())
