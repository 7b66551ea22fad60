"""Differential fuzzer: mutated logs through the compiled and the portable kernels, which must agree on everything.

Run by itself it is a campaign of any length; tests/kernels/test_fuzz.py runs it with fixed seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

if __package__ in (None, ""):  # behind what is installed, so that this is what is tested
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from kdump.kernels.portable import kernels as portable
from tests.kernels.mutants import mutate
from tests.kernels.observe import Case, Difference, observe
from tests.kernels.reading import NATIVE
from tests.kernels.seeds import Seed, framed, mend_checksums, mended, seeds, wrapped

MAX_INT64 = (1 << 63) - 1
BASES = (0, 0, 0, 4096, 1 << 40)
LEFT = (-1, 0, 61, (1 << 31) - 1, (1 << 31) + 12, 1 << 62)
BOUNDS = ((0, MAX_INT64), (-MAX_INT64 - 1, MAX_INT64), (5, 1 << 31), (-MAX_INT64 - 1, 0), (MAX_INT64 - 9, MAX_INT64))


class Campaign:
    """Mutants of one random seed, and what they met."""

    def __init__(self, seed: int, found: ModuleType, expected: ModuleType = portable) -> None:
        self._rng = Random(seed)
        self._kernels = expected, found
        self._seeds = seeds()
        self._templates = [seed for seed in self._seeds if seed.payload is not None]
        self._buffers = [seed.data for seed in self._seeds]
        self._payloads = [seed.payload for seed in self._templates if seed.payload is not None]
        self._exact = exact_sizes()
        self.mutants = 0
        self.met: Counter[int] = Counter()

    def run(self, mutants: int | None, seconds: float | None = None) -> Difference | None:
        """Try `mutants` mutants, or as many as fit in `seconds`; stop at the first on which the kernels differ."""
        end = time.monotonic() + seconds if seconds is not None else None
        for case in self._cases():
            if self.mutants == mutants or (end is not None and time.monotonic() > end):
                return None
            self.mutants += 1
            difference = self.compare(case)
            if difference:
                return difference
        return None

    def compare(self, case: Case) -> Difference | None:
        """The first observation on which the kernels differ, or an exception of both."""
        case = case._replace(data=self._exact(case.data), payload=case.payload and self._exact(case.payload))
        streams = [observe(case, kernel) for kernel in self._kernels]
        while True:
            left, right = (next(stream, None) for stream in streams)
            if left != right or (left is not None and left[0] in ("raised", "stalled")):
                return Difference(case, left, right)
            if left is None:
                return None
            self._count(left)

    def _count(self, observation: tuple[str, Any]) -> None:
        label, value = observation
        if label == "walk":
            self.met[value[0]] += 1
        elif label in ("check", "inflate", "decode", "text"):
            fault = value if label == "check" else value[-2] if label == "text" else value[-1]
            if fault:
                self.met[fault[0]] += 1

    def _cases(self) -> Iterator[Case]:
        rng = self._rng
        while True:
            if rng.random() < 0.4:
                yield self._around(rng, *self._payload_mutant(rng))
            else:
                yield self._around(rng, self._buffer_mutant(rng))

    def _buffer_mutant(self, rng: Random) -> bytes:
        data = bytearray(rng.choice(self._buffers))
        if rng.random() < 0.1:
            data += rng.choice(self._buffers)
        mutate(rng, data, self._buffers)
        how = rng.random()
        if how < 0.3 and len(data) > 26:
            return mended(data)
        if how < 0.7:
            mend_checksums(data)
        return bytes(data)

    def _payload_mutant(self, rng: Random) -> tuple[bytes, bytes | None]:
        """Entries around a damaged payload: given apart, compressed in the entry, or (v2) not compressed at all."""
        template = rng.choice(self._templates)
        payload = bytearray(template.payload or b"")
        mutate(rng, payload, self._payloads)
        how = rng.random()
        if how < 0.5:
            return template.data, bytes(payload)
        return self._enclosed(rng, template, bytes(payload), plain=how < 0.8), None

    def _enclosed(self, rng: Random, template: Seed, payload: bytes, plain: bool) -> bytes:
        magic = template.data[16]
        codec = template.data[22 if magic == 2 else 17] & 7
        if magic < 2:
            return wrapped(payload, codec, magic, rng.choice((0, 1, 9, 99, MAX_INT64)))
        count = int.from_bytes(template.data[57:61], "big")
        if rng.random() < 0.2:
            count = rng.choice((-1, 0, 1, count - 1, count + 1, (1 << 31) - 1))
        return framed(payload, count, 0 if plain else codec)

    def _around(self, rng: Random, data: bytes, payload: bytes | None = None) -> Case:
        """A case of `data` as a whole log, or as a stretch of one that begins before it or goes on behind it."""
        base = rng.choice(BASES)
        end = file_end = base + len(data)
        if rng.random() < 0.3:
            file_end += int(rng.random() * 80)
            end = file_end - int(rng.random() * 80) if rng.random() < 0.5 else file_end
        return Case(
            data,
            end,
            file_end,
            base,
            payload,
            rows=8 if rng.random() < 0.5 else 2,
            records=16 if rng.random() < 0.5 else 3,
            text=int(rng.random() * 8) if rng.random() < 0.5 else None,
            search=self._search(rng, len(data)) if rng.random() < 0.1 else None,
        )

    def _search(self, rng: Random, size: int) -> tuple[int, int, int, int, int]:
        left = size if rng.random() < 0.5 else rng.choice(LEFT)
        return int(rng.random() ** 3 * size), size - int(rng.random() ** 3 * size), left, *rng.choice(BOUNDS)


def exact_sizes() -> Callable[[bytes], bytes]:
    """A function that copies bytes so that AddressSanitizer, where it is at work, sees every read beyond their end.

    CPython keeps a zero behind every bytes object. A read of that one byte would go unnoticed, so it is forbidden.
    """
    import ctypes

    try:
        poison = ctypes.CDLL(None).__asan_poison_memory_region
    except (AttributeError, TypeError, OSError):
        return bytes
    poison.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    content = bytes.__basicsize__ - 1

    def exact(data: bytes) -> bytes:
        copy = bytes(bytearray(data))
        if len(copy) > 1:  # shorter ones are shared by the whole interpreter
            poison(id(copy) + content + len(copy), 1)
        return copy

    return exact


def reproducer(case: Case) -> str:
    """The command line that looks at the case again."""
    fields = case._asdict()
    fields["data"] = case.data.hex()
    fields["payload"] = None if case.payload is None else case.payload.hex()
    return f"python tests/kernels/fuzz.py --case '{json.dumps(fields)}'"


def case_of(text: str) -> Case:
    """The case that a reproducer's argument describes."""
    fields = json.loads(text)
    fields["data"] = bytes.fromhex(fields["data"])
    fields["payload"] = None if fields["payload"] is None else bytes.fromhex(fields["payload"])
    fields["search"] = fields["search"] and tuple(fields["search"])
    return Case(**fields)


def report(difference: Difference) -> str:
    """A difference as text, with the means to see it again."""
    return (
        f"the kernels differ\n  portable: {difference.expected}\n  native:   {difference.found}\n"
        f"{reproducer(difference.case)}"
    )


def main() -> int:
    """Run a campaign, or one case again."""
    parser = argparse.ArgumentParser(description="Mutated logs through the compiled and the portable kernels.")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default: %(default)s)")
    parser.add_argument("--mutants", type=int, help="how many (default: 200000, without limit with --seconds)")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--case", type=case_of, help="only this case, as an earlier run printed it")
    options = parser.parse_args()
    if NATIVE is None:
        parser.error("the compiled kernels are not built here: there is nothing to compare with")
    campaign = Campaign(options.seed, NATIVE)
    start = time.monotonic()
    if options.case:
        difference = campaign.compare(options.case)
    else:
        mutants = 200_000 if options.mutants is None and options.seconds is None else options.mutants
        difference = campaign.run(mutants, options.seconds)
    took = time.monotonic() - start
    if difference:
        print(f"seed {options.seed}, mutant {campaign.mutants}: {report(difference)}")
        return 1
    if options.case:
        print("the kernels agree")
        return 0
    print(f"seed {options.seed}: {campaign.mutants} mutants in {took:.0f} s, no difference ({NATIVE.__file__})")
    print("met: " + ", ".join(f"{code} {count}" for code, count in sorted(campaign.met.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
