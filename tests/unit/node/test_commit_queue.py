"""When a batch of finished jobs is ready to commit."""

import threading
import time

import pytest

from engine.model.job import JobState
from engine.node.capacity import ActiveJobs, Capacity
from engine.node.commit_queue import MAX_WAIT_SECONDS, CommitQueue
from engine.store.transactions.outcome import JobOutcome
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
