"""The retry of a busy database: until it succeeds, the time is over, it is cancelled, or the disk is full."""

import logging
from collections.abc import Callable

import pytest

from crawl_engine.store.db import retry_busy as module
from crawl_engine.store.db.retry_busy import DatabaseBusy, DiskFull, retry_busy


def busy(times: int, error: type[DatabaseBusy] = DatabaseBusy) -> tuple[list[int], Callable[[], str]]:
    """A call that is busy some times, and the list of its attempts."""
    attempts: list[int] = []

    def work() -> str:
        attempts.append(len(attempts))
        if len(attempts) <= times:
            raise error("crawl.db: database is locked")
        return "done"

    return attempts, work


def test_it_returns_the_result_of_the_first_attempt_that_succeeds() -> None:
    attempts, work = busy(3)
    assert retry_busy(work, pause=0.0) == "done"
    assert len(attempts) == 4


def test_it_raises_the_last_error_when_the_time_is_over() -> None:
    attempts, work = busy(1_000_000)
    with pytest.raises(DatabaseBusy, match="locked"):
        retry_busy(work, seconds=0.05, pause=0.01)
    assert 2 <= len(attempts) <= 7


def test_without_time_there_is_one_attempt() -> None:
    attempts, work = busy(1)
    with pytest.raises(DatabaseBusy):
        retry_busy(work, seconds=0)
    assert len(attempts) == 1


def test_it_can_be_cancelled() -> None:
    attempts, work = busy(1_000_000)
    with pytest.raises(DatabaseBusy):
        retry_busy(work, pause=0.0, cancelled=lambda: len(attempts) == 3)
    assert len(attempts) == 3


@pytest.mark.parametrize("wait", [True, False])
def test_a_full_disk_is_waited_for_only_if_asked(wait: bool) -> None:
    attempts, work = busy(2, DiskFull)
    if wait:
        assert retry_busy(work, pause=0.0) == "done"
    else:
        with pytest.raises(DiskFull):
            retry_busy(work, pause=0.0, wait_for_space=False)
        assert len(attempts) == 1


def test_other_errors_are_not_retried() -> None:
    def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        retry_busy(work)


def test_a_long_wait_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "_WARN_AFTER_SECONDS", 0.01)
    caplog.set_level(logging.WARNING)
    _, work = busy(10)
    retry_busy(work, pause=0.01)
    assert [record.getMessage() for record in caplog.records] == ["crawl.db: database is locked; waiting for it"]
