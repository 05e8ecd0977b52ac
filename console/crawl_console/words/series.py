"""The series of a run: its ranges of time, and the samples of each part of one."""

import time
from collections.abc import Sequence

from crawl_console.format import format_age
from crawl_engine.store.tables.run.samples import Sample

TIME_RANGES = (("run", 0.0), ("5m", 300.0), ("15m", 900.0), ("1h", 3600.0), ("6h", 21_600.0))
"""Names and seconds; 0: from the first sample of the run on."""
MIN_SECONDS = 10.0
MAX_GAP_SECONDS = 12.0
"""A sample stands for so long after it: supervisors write one every five seconds."""
ANSWER_ROLES = {"2xx": "good", "3xx": "accent", "4xx": "text", "429": "warn", "5xx": "bad", "none": "bad"}
"""The strip of each class tells them apart where there is no colour."""
ANSWER_MEANINGS = {
    "2xx": "pages", "3xx": "redirected, unchanged", "4xx": "missing, refused", "429": "too many requests",
    "5xx": "server errors", "none": "no answer",
}  # fmt: skip


def find_range(samples: Sequence[Sample], name: str, seconds: float, *, is_live: bool) -> tuple[str, float, float]:
    """What a range is called, how many seconds it has, and when it ends, wall clock; `seconds` 0: the whole run."""
    ends_at = time.time() if is_live or not samples else samples[-1].at
    if seconds:
        return f"last {name}", seconds, ends_at
    age = max(MIN_SECONDS, ends_at - samples[0].at) if samples else MIN_SECONDS
    return f"the whole run, {format_age(age)}", age + 1.0, ends_at  # the interval of the first sample


def split_samples(samples: Sequence[Sample], count: int, seconds: float, ends_at: float) -> list[list[Sample]]:
    """The samples of each of `count` equal intervals; a gap is filled for a short time."""
    length = seconds / count
    columns: list[list[Sample]] = [[] for _ in range(count)]
    for sample in samples:
        index = count - 1 - int((ends_at - sample.at) / length)
        if 0 <= index < count:
            columns[index].append(sample)
    last: Sample | None = None
    for index, column in enumerate(columns):
        at = ends_at - (count - 1 - index) * length
        if column:
            last = column[-1]
        elif last is not None and at - last.at < MAX_GAP_SECONDS:
            columns[index] = [last]
    return columns


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
