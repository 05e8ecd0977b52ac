"""Histograms of latency: how many answers took how long, in buckets, each 9 % longer than the one before."""

import math
from collections.abc import Mapping

_SHORTEST = 0.001
"""Seconds: the upper bound of bucket 0."""
_PER_DOUBLING = 8
_LAST_BUCKET = 160
"""Of 1000 seconds and more."""


def bucket_of(seconds: float) -> int:
    """The bucket of a latency."""
    if seconds <= _SHORTEST:
        return 0
    return min(_LAST_BUCKET, math.ceil(math.log2(seconds / _SHORTEST) * _PER_DOUBLING))


def quantile(histogram: Mapping[int, int], share: float) -> float | None:
    """The latency, in seconds, that `share` (0..1) of the answers do not exceed; None without answers.

    Interpolated within its bucket: at most 9 % off between 1 ms and 1000 s.
    """
    total = sum(histogram.values())
    if total <= 0:
        return None
    rank, below = share * total, 0
    for bucket in sorted(histogram):
        count = histogram[bucket]
        if count > 0 and below + count >= rank:
            within = max(0.0, (rank - below) / count)
            return _lower_bound(bucket) + (_upper_bound(bucket) - _lower_bound(bucket)) * within
        below += count
    return _upper_bound(max(histogram))


def difference(now: Mapping[int, int], before: Mapping[int, int]) -> dict[int, int]:
    """What was added to a histogram since an earlier one."""
    return {bucket: count - before.get(bucket, 0) for bucket, count in now.items() if count > before.get(bucket, 0)}


def _upper_bound(bucket: int) -> float:
    return _SHORTEST * 2 ** (bucket / _PER_DOUBLING)


def _lower_bound(bucket: int) -> float:
    return 0.0 if bucket == 0 else _upper_bound(bucket - 1)
