"""The bounded pictures: histograms, time series, envelopes, samples."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kdump.formats.codecs import GZIP, NONE, ZSTD
from kdump.statistics import series
from kdump.statistics.partition import CodecSample
from kdump.statistics.series import Envelope, TimeSeries
from kdump.statistics.sizes import Sizes

numbers = st.lists(st.integers(0, 1 << 40))


@given(numbers, numbers)
def test_sizes_add_up_and_merge(first: list[int], second: list[int]) -> None:
    one, two, both = Sizes(), Sizes(), Sizes()
    one.add(first)
    two.add(second)
    both.add([*first, *second])
    one.merge(two)
    assert one == both
    every = [*first, *second]
    assert (both.count, both.total) == (len(every), sum(every))
    assert (both.min, both.max) == ((min(every), max(every)) if every else (None, None))
    for bucket in both.buckets():
        assert bucket.members == sum(bucket.low <= number < bucket.high for number in every)
    assert sum(bucket.members for bucket in both.buckets()) == len(every)


@given(st.lists(st.integers(0, 1 << 40), min_size=1), st.floats(0, 1))
def test_a_quantile_bounds_its_share(values: list[int], share: float) -> None:
    sizes = Sizes()
    sizes.add(values)
    bound = sizes.quantile(share)
    assert bound is not None
    assert bound <= max(values)
    assert sum(value <= bound for value in values) >= share * len(values)


@given(st.lists(st.tuples(st.integers(-1, 1 << 62), st.integers(1, 1000)), max_size=80))
def test_a_time_series_keeps_every_byte_and_stays_small(found: list[tuple[int, int]]) -> None:
    whole, left, right = TimeSeries(), TimeSeries(), TimeSeries()
    before, series.MAX_BUCKETS = series.MAX_BUCKETS, 8
    try:
        whole.add([time for time, _ in found], [size for _, size in found])
        half = len(found) // 2
        left.add([time for time, _ in found[:half]], [size for _, size in found[:half]])
        right.add([time for time, _ in found[half:]], [size for _, size in found[half:]])
        left.merge(right)
    finally:
        series.MAX_BUCKETS = before
    timed = [(time, size) for time, size in found if time >= 0]
    for each in (whole, left):
        moments = list(each.moments())
        assert len(moments) <= 8
        assert sum(moment.bytes for moment in moments) == sum(size for _, size in timed)
        assert sum(moment.batches for moment in moments) == len(timed)
        for moment in moments:
            here = [size for time, size in timed if moment.start <= time < moment.start + each.width]
            assert moment.bytes == sum(here)


def test_an_envelope_keeps_the_one_timestamp_that_is_far_off() -> None:
    envelope = Envelope()
    times = [1000 + number for number in range(20_000)]
    times[7777] = 5_000_000
    for at in range(0, len(times), 100):
        offsets = range(at, at + 100)
        envelope.add(offsets, offsets, times[at : at + 100])
    assert len(envelope.ranges) <= series.MAX_RANGES
    assert max(each.latest for each in envelope.ranges) == 5_000_000
    assert sum(each.latest == 5_000_000 for each in envelope.ranges) == 1
    assert (envelope.ranges[0].first_offset, envelope.ranges[-1].last_offset) == (0, 19_999)
    ends = [(each.first_offset, each.last_offset) for each in envelope.ranges]
    assert all(before[1] + 1 == after[0] for before, after in pairwise(ends))


def test_a_sample_tells_nothing_without_batches() -> None:
    sample = CodecSample()
    assert sample.estimate(ZSTD, 100) is None
    sample.merge(CodecSample(2, 50, 100, Counter({NONE: 100, GZIP: 25})))
    assert (sample.estimate(NONE, 1000), sample.estimate(GZIP, 1000)) == (2000, 500)
