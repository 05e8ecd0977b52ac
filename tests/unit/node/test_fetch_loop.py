"""The fetch loop gives back what it was handed too late."""

import asyncio
import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.model.job import JobState, LeasedJob
from engine.node.fetch_loop import FetchLoop
from engine.store.transactions.outcome import JobOutcome
from tests.unit.node.leased_jobs import leased


class Fetching:
    """A pipeline that sends at once and answers a little later."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    async def process(self, job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        self.sent.append(job.id)
        started()
        await asyncio.sleep(0.1)
        return JobOutcome(job=job, state=JobState.DONE)


@pytest.fixture
def pipeline() -> Fetching:
    return Fetching()


@pytest.fixture
def finished() -> "queue.Queue[JobOutcome]":
    return queue.Queue()


@pytest.fixture
def loop(pipeline: Any, finished: "queue.Queue[JobOutcome]") -> Iterator[FetchLoop]:
    made = FetchLoop(
        build_pipeline=lambda: pipeline, close=lambda: asyncio.sleep(0), on_finished=finished.put, on_slot_freed=lambda: None,
        concurrency=2, source="n1",
    )  # fmt: skip
    made.start_and_wait()
    yield made
    made.stop()
    made.join(5)


def test_jobs_that_come_after_the_order_to_give_back_are_not_sent(
    loop: FetchLoop, pipeline: Fetching, finished: "queue.Queue[JobOutcome]"
) -> None:
    loop.submit([leased(1)])
    while not pipeline.sent:
        pass
    loop.release_jobs(None)
    loop.submit([leased(2)])
    ended = {done.job.id: done.state for done in (finished.get(timeout=5), finished.get(timeout=5))}
    assert ended == {1: JobState.DONE, 2: JobState.READY}
    assert pipeline.sent == [1]
    assert loop.active_count == 0
