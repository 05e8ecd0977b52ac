"""A line that is said again and again is written once in ten seconds, and counted."""

import logging

import pytest

from engine.runtime.log_dedup import DedupFilter


def record(text: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("node", logging.WARNING, "", 0, text, args, None)


def test_a_line_said_again_is_held_back_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    sparing = DedupFilter()
    assert sparing.filter(record("%s waits", "a"))
    assert sparing.filter(record("%s waits", "b")), "another line is another matter"
    for _ in range(60):
        now += 0.15
        assert not sparing.filter(record("%s waits", "a"))
    now += 1.5
    late = record("%s waits", "a")
    assert sparing.filter(late)
    assert late.getMessage() == "a waits (60 times more since)"
    now += 11
    again = record("%s waits", "a")
    assert sparing.filter(again)
    assert again.getMessage() == "a waits"


def test_what_it_remembers_is_bounded() -> None:
    sparing = DedupFilter()
    for number in range(10_000):
        assert sparing.filter(record("line %d", number))
    assert len(sparing._logged) <= 200
