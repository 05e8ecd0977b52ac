"""Classes of HTTP statuses, as operators tell them apart: 429 asks for patience, 503 may be an outage."""

from collections.abc import Mapping

STATUS_CLASSES = ("2xx", "3xx", "4xx", "429", "5xx", "none")
"""`4xx` is without 429; `none`: a request without an answer."""


def _status_class(status: int) -> str:
    """The class of a status; 0: there was no answer."""
    if status == 429:
        return "429"
    return f"{status // 100}xx" if 200 <= status <= 599 else "none"


def count_by_class(answers: Mapping[int, int]) -> dict[str, int]:
    """The answers of each class that has some, in the order of `STATUS_CLASSES`; `answers`: by status."""
    counts = dict.fromkeys(STATUS_CLASSES, 0)
    for status, count in answers.items():
        counts[_status_class(status)] += count
    return {name: count for name, count in counts.items() if count}
