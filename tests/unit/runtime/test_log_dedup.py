"""A repeated line is written once in ten seconds, and counted."""

import logging

import pytest

from engine.runtime.log_dedup import DedupFilter


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
