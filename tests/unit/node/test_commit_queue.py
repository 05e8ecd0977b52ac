"""When a batch of finished jobs is ready to commit."""

import threading
import time

import pytest

from crawl_engine.model.job import JobState
from crawl_engine.node.capacity import ActiveJobs, Capacity
from crawl_engine.node.commit_queue import MAX_WAIT_SECONDS, CommitQueue
from crawl_engine.store.tables.job.linked_jobs import ChildJob, Children
from crawl_engine.store.tables.outcome import JobOutcome
from tests.unit.node.leased_jobs import leased


def queue_of(held: int, concurrency: int = 32) -> CommitQueue:
    capacity = Capacity(concurrency, active_jobs=ActiveJobs(), wakeup=threading.Event())
    capacity.add_leased([leased(number) for number in range(held)])
    return CommitQueue(capacity)


def finish(queue: CommitQueue, count: int) -> None:
    for number in range(count):
        queue.put(JobOutcome(job=leased(number), state=JobState.DONE))


def take_batch(queue: CommitQueue) -> int:
    while not (batch := queue.take()):
        assert batch is not None
    return len(batch)


@pytest.mark.parametrize(("concurrency", "batch"), [(8, 4), (6, 6)])
def test_half_of_the_held_jobs_are_a_batch_at_once_and_three_quarters_in_a_full_node(
    concurrency: int, batch: int
) -> None:
    queue = queue_of(8, concurrency)
    finish(queue, batch)
    started = time.monotonic()
    assert take_batch(queue) == batch
    assert time.monotonic() - started < MAX_WAIT_SECONDS


def test_fewer_jobs_wait_50_ms_for_others() -> None:
    queue = queue_of(8, concurrency=6)
    started = time.monotonic()
    finish(queue, 5)
    assert take_batch(queue) == 5
    assert time.monotonic() - started >= MAX_WAIT_SECONDS


def test_a_closed_queue_returns_what_is_pending_and_then_none() -> None:
    queue = queue_of(8)
    finish(queue, 1)
    queue.close()
    assert take_batch(queue) == 1
    assert queue.take() is None


def test_a_finished_job_wakes_a_waiting_committer() -> None:
    queue = queue_of(1)
    timer = threading.Timer(0.05, finish, args=(queue, 1))
    started = time.monotonic()
    timer.start()
    assert take_batch(queue) == 1
    assert time.monotonic() - started < 0.8, "an idle wait takes a second"


def outcome_leading_on(number: int, pages: int = 1) -> JobOutcome:
    children = tuple(
        ChildJob("g", "a:80", "http://a", f"http://a/{number}/{page}", 0, 0, b"%d %d" % (number, page))
        for page in range(pages)
    )
    return JobOutcome(job=leased(number), state=JobState.DONE, effects=(Children(children),))


def test_a_page_that_leads_to_one_page_is_offered_first_and_its_commit_waits_for_later_ones() -> None:
    queue = queue_of(1)
    started = time.monotonic()
    queue.put(outcome_leading_on(0))
    assert queue.take() == [], "not ready: the next page may be leased first"
    assert [outcome.job.id for outcome in queue.take_leading()] == [0]
    assert queue.take_leading() == []
    queue.mark_continued()
    queue._capacity.add_leased([leased(1)])
    queue.put(JobOutcome(job=leased(1), state=JobState.DONE))
    assert take_batch(queue) == 2, "the last page of the series makes the batch ready"
    assert time.monotonic() - started < MAX_WAIT_SECONDS


def test_a_series_that_continues_is_committed_after_50_ms() -> None:
    queue = queue_of(2)
    started = time.monotonic()
    queue.put(outcome_leading_on(0))
    queue.take_leading()
    queue.mark_continued()
    assert take_batch(queue) == 1
    assert time.monotonic() - started >= MAX_WAIT_SECONDS


def test_a_page_whose_next_one_cannot_be_leased_is_committed_at_once() -> None:
    queue = queue_of(1)
    started = time.monotonic()
    queue.put(outcome_leading_on(0))
    assert len(queue.take_leading()) == 1
    assert take_batch(queue) == 1
    assert time.monotonic() - started < MAX_WAIT_SECONDS


@pytest.mark.parametrize("pages", [0, 2])
def test_a_page_that_leads_to_none_or_several_pages_is_not_offered(pages: int) -> None:
    queue = queue_of(1)
    queue.put(outcome_leading_on(0, pages))
    assert queue.take_leading() == []
    assert take_batch(queue) == 1


def test_nothing_is_offered_beside_many_jobs() -> None:
    queue = queue_of(9)
    queue.put(outcome_leading_on(0))
    assert queue.take_leading() == []


def test_nothing_is_offered_that_is_committed() -> None:
    queue = queue_of(4)
    queue.put(outcome_leading_on(0))
    finish(queue, 2)
    assert take_batch(queue) == 3
    assert queue.take_leading() == []
