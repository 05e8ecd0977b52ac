"""A repeated line is written once in ten seconds, and counted."""

import logging

import pytest

from crawl_engine.runtime.log_file import DedupFilter


def record(text: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("node", logging.WARNING, "", 0, text, args, None)


def test_a_repeated_line_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    dedup = DedupFilter()
    assert dedup.filter(record("%s waits", "a"))
    assert dedup.filter(record("%s waits", "b")), "a different line"
    for _ in range(60):
        now += 0.15
        assert not dedup.filter(record("%s waits", "a"))
    now += 1.5
    late = record("%s waits", "a")
    assert dedup.filter(late)
    assert late.getMessage() == "a waits (repeated 60 times)"
    now += 11
    again = record("%s waits", "a")
    assert dedup.filter(again)
    assert again.getMessage() == "a waits"


def test_the_lines_it_remembers_are_bounded() -> None:
    dedup = DedupFilter()
    for number in range(10_000):
        assert dedup.filter(record("line %d", number))
    assert len(dedup._logged) <= 200


def raised(error: Exception) -> tuple[type[Exception], Exception, None]:
    try:
        raise error
    except Exception as caught:
        return (type(caught), caught, caught.__traceback__)  # type: ignore[return-value]


def test_an_error_is_dropped_only_if_it_has_the_same_origin() -> None:
    dedup = DedupFilter()

    def logged(error: Exception) -> bool:
        return dedup.filter(logging.LogRecord("node", logging.ERROR, "", 0, "it failed", (), raised(error)))

    assert logged(KeyError("a"))
    assert not logged(KeyError("b")), "the same type from the same line"
    assert logged(ValueError("a"))
    assert dedup.filter(record("it failed")), "a line without an error"
