"""The window onto a long job list, and the job under its cursor."""

import pytest

from crawl_console.filter_syntax import parse
from crawl_console.tui.state.job_window import JobWindow, WindowPage
from crawl_engine.store.read.browse import Cursor, JobLine, Listing
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


class Source:
    """The jobs of a run, as the window asks for them."""

    def jobs(self, run, job_filter, after, limit, *, backwards):
        ids = [line.id for line in READY]
        if backwards:
            end = len(READY) if after is None else ids.index(after.id)
            found = tuple(reversed(READY[max(0, end - limit) : end]))
        else:
            found = tuple(READY[0 if after is None else ids.index(after.id) + 1 :][:limit])
        return Listing(found, Cursor(found[-1].cursor.at, found[-1].id) if found else None)


@pytest.mark.parametrize("first_visible", [0, 15], ids=["at the top", "below it"])
def test_a_query_that_was_made_before_lines_came_in_front_changes_nothing(first_visible: int) -> None:
    made = window("state:ready", READY[300:360], READY[310])
    made.has_start, made.has_end, made.searching, made.page_size = False, True, False, 10
    first = made.next_query()
    made.first_visible = first_visible  # a key before the answer has come
    second = made.next_query()
    for query in (first, second):
        answer = query(Source(), 1)
        assert answer is not None
        made.apply(answer)
    ids = [line.id for line in made.lines]
    assert ids == list(range(ids[0], ids[-1] + 1))
    assert (ids[0], ids[-1]) == (281, 360)


@pytest.mark.parametrize(("took", "rests"), [(0.01, 0.15), (0.1, 1.5), (60.0, 3.0)])
def test_a_query_that_was_held_up_is_asked_again_soon(
    monkeypatch: pytest.MonkeyPatch, took: float, rests: float
) -> None:
    """A console that was stopped for a minute while it read kept jobs that had left the filter for a quarter hour."""
    now = 1_000.0
    monkeypatch.setattr("crawl_console.tui.state.job_window.time.monotonic", lambda: now)
    made = window("state:ready", READY[:80], READY[0])
    made.apply(WindowPage(0, tuple(READY[:80]), READY[79].cursor, took, made.generation))
    now += rests - 0.01
    assert made.next_query()(Source(), 1) is None
    now += 0.02
    assert made.next_query()(Source(), 1) is not None


def test_a_line_above_the_visible_ones_that_left_the_list_does_not_come_down() -> None:
    """Where visible lines leave, those above them come into view: one a poll was a job that had been taken long ago."""
    made = window("state:ready", READY[:100], READY[50])
    made.first_visible, made.page_size = 40, 20
    left = {line.id for line in READY[21:50]}

    class Rest(Source):
        def jobs(self, run, job_filter, after, limit, *, backwards):
            found = [line for line in READY if line.id not in left and line.id > after.id][:limit]
            return Listing(tuple(found), found[-1].cursor)

    answer = made.next_query()(Rest(), 1)
    assert answer is not None
    made.apply(answer)
    assert not left & {line.id for line in made.lines}
    assert len(made.lines) >= 60


def test_a_list_that_becomes_empty_is_shown_empty_however_far_down_it_was_read() -> None:
    """The lines above came into view a page a poll."""

    class Empty(Source):
        def jobs(self, run, job_filter, after, limit, *, backwards):
            return Listing((), None)

    made = window("state:ready", READY, READY[450])
    made.first_visible, made.page_size = 440, 20
    for _ in range(2):
        answer = made.next_query()(Empty(), 1)
        assert answer is not None
        made.apply(answer)
    assert (made.lines, made.has_start, made.has_end, made.searching) == ([], True, True, False)
