"""Histograms of latency, and the classes of statuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.model.host import bucket_of, count_by_class, difference, quantile


@given(st.lists(st.floats(0.0005, 900.0), min_size=1, max_size=200), st.sampled_from([0.05, 0.5, 0.95, 1.0]))
def test_a_quantile_is_at_most_a_bucket_off(seconds: list[float], share: float) -> None:
    histogram: dict[int, int] = {}
    for value in seconds:
        histogram[bucket_of(value)] = histogram.get(bucket_of(value), 0) + 1
    measured = quantile(histogram, share)
    true = sorted(seconds)[max(0, -(-int(share * 1000) * len(seconds) // 1000) - 1)]
    assert measured is not None
    assert measured <= true * 1.1 + 0.001
    assert measured >= true / 1.1 - 0.001


def test_no_answer_has_no_quantile() -> None:
    assert quantile({}, 0.5) is None
    assert quantile(difference({3: 2}, {3: 2}), 0.5) is None


@pytest.mark.parametrize(("seconds", "bucket"), [(0.0, 0), (0.001, 0), (0.002, 8), (0.004, 16), (1e9, 160)])
def test_buckets_double_every_eight(seconds: float, bucket: int) -> None:
    assert bucket_of(seconds) == bucket


def test_429_is_a_class_of_its_own() -> None:
    assert count_by_class({200: 5, 204: 1, 404: 2, 429: 3, 503: 4, 0: 6, 999: 1}) == {
        "2xx": 6, "4xx": 2, "429": 3, "5xx": 4, "none": 7,
    }  # fmt: skip
