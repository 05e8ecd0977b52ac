"""The window onto a long job list, and the job under its cursor."""

import pytest

from console.filter_syntax import parse
from console.tui.state.job_window import JobWindow, WindowPage
from engine.store.read.browse import Cursor, JobLine
from tests.console.builders import line


def window(text: str, lines: list[JobLine], anchor: JobLine) -> JobWindow:
    made = JobWindow()
    made.reset(parse(text))
    made.lines, made.anchor = list(lines), anchor
    return made


def page(made: JobWindow, *lines: JobLine) -> WindowPage:
    return WindowPage(0, lines, Cursor(lines[-1].cursor.at, lines[-1].id) if lines else None, 0.0, made.generation)


READY = [line(number, "READY") for number in range(1, 500)]
FAILED = [line(number, "FAILED", changed_at=1_000.0 - number) for number in range(1, 500)]
"""Newest first."""


@pytest.mark.parametrize("leased", [1, 9, 80])
def test_a_job_that_left_a_list_by_id_is_not_searched_for(leased: int) -> None:
    made = window("state:ready", READY[:80], READY[0])
    made.apply(page(made, *READY[leased : leased + 80]))
    assert not made.lost_anchor
    assert not made.searching


def test_a_retried_job_is_not_searched_for_among_failed_ones() -> None:
    made = window("state:failed", FAILED[:80], FAILED[2])
    made.apply(page(made, *FAILED[:2], *FAILED[3:81]))
    assert not made.searching


@pytest.mark.parametrize("text", ["state:failed", ""])
def test_a_job_that_was_pushed_down_is_searched_for(text: str) -> None:
    jobs = FAILED if text else READY
    made = window(text, jobs[100:180], jobs[100])
    made.apply(page(made, *jobs[:80]))
    assert made.lost_anchor
    assert made.searching
    made.apply(WindowPage(80, tuple(jobs[80:160]), Cursor(0.0, 1), 0.0, made.generation))
    assert not made.searching
