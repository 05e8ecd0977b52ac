"""The fetch loop returns jobs that are submitted after the release."""

import asyncio
import queue
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from crawl_engine.model.job import JobKind, JobState, LeasedJob
from crawl_engine.node.capacity import ActiveJobs
from crawl_engine.node.fetch_loop import FetchLoop
from crawl_engine.settings import Settings
from crawl_engine.store.db.retry_busy import DatabaseBusy
from crawl_engine.store.tables.outcome import JobOutcome
from tests.unit.node.contexts import node_context
from tests.unit.node.leased_jobs import change, leased


class FakePipeline:
    """Sends at once and returns an outcome `seconds` later."""

    def __init__(self) -> None:
        self.seconds = 0.1
        self.sent: list[int] = []
        self.closed = False
        self.error: Exception | None = None
        self.entered: list[int] = []
        self.held: asyncio.Event | None = None
        """Until it is set, no request is sent."""

    def prepare(self, jobs: Sequence[LeasedJob]) -> None:
        pass

    def waiting_hosts(self) -> dict[int, float]:
        return {}

    def forget(self, job: LeasedJob) -> None:
        pass

    async def process(self, job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        self.entered.append(job.id)
        if self.held is not None:
            await self.held.wait()
        self.sent.append(job.id)
        started()
        if self.error is not None:
            raise self.error
        await asyncio.sleep(self.seconds)
        return JobOutcome(job=job, state=JobState.DONE)

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture
def pipeline() -> FakePipeline:
    return FakePipeline()


@pytest.fixture
def finished() -> "queue.Queue[JobOutcome]":
    return queue.Queue()


@pytest.fixture
def loop(pipeline: FakePipeline, finished: "queue.Queue[JobOutcome]") -> Iterator[FetchLoop]:
    loop = FetchLoop(
        node_context(settings=Settings(concurrency=2)),
        build_pipeline=lambda: pipeline,
        active_jobs=ActiveJobs(),
        on_finished=finished.put,
        on_slot_freed=lambda: None,
    )
    loop.start_and_wait()
    yield loop
    loop.stop()
    loop.join(5)
    assert pipeline.closed


def test_jobs_submitted_after_the_release_are_not_sent(
    loop: FetchLoop, pipeline: FakePipeline, finished: "queue.Queue[JobOutcome]"
) -> None:
    loop.submit([leased(1)])
    while not pipeline.sent:
        pass
    loop.release_jobs(None)
    loop.submit([leased(2)])
    states = {outcome.job.id: outcome.state for outcome in (finished.get(timeout=5), finished.get(timeout=5))}
    assert states == {1: JobState.DONE, 2: JobState.READY}
    assert pipeline.sent == [1]
    assert loop.active_count == 0


@pytest.mark.parametrize(
    ("error", "state"), [(DatabaseBusy("the server is away"), JobState.READY), (ValueError("x"), JobState.FAILED)]
)
def test_a_job_during_which_the_database_was_away_is_worked_again(
    loop: FetchLoop, pipeline: FakePipeline, finished: "queue.Queue[JobOutcome]", error: Exception, state: JobState
) -> None:
    pipeline.error = error
    loop.submit([leased(1)])
    outcome = finished.get(timeout=5)
    assert outcome.state is state and outcome.attempts == (state is JobState.FAILED)
    assert outcome.stats is not None and outcome.stats.requests == 1


def test_a_job_that_waits_for_a_slot_of_the_node_holds_none_at_its_host(
    loop: FetchLoop, pipeline: FakePipeline, finished: "queue.Queue[JobOutcome]"
) -> None:
    loop.submit([leased(number) for number in range(4)])
    while len(pipeline.sent) < 2:
        pass
    assert pipeline.sent == [0, 1]
    for _ in range(4):
        assert finished.get(timeout=5).state is JobState.DONE


def test_a_job_that_arrives_as_the_last_worker_ends_is_worked(pipeline: FakePipeline) -> None:
    pipeline.seconds = 0.0
    finished: queue.Queue[int] = queue.Queue()

    def finish(outcome: JobOutcome) -> None:
        if outcome.job.id < 4:
            loop.submit([leased(outcome.job.id + 1)])
        finished.put(outcome.job.id)

    loop = FetchLoop(
        node_context(settings=Settings(concurrency=1)), build_pipeline=lambda: pipeline, active_jobs=ActiveJobs(),
        on_finished=finish, on_slot_freed=lambda: None,
    )  # fmt: skip
    loop.start_and_wait()
    try:
        loop.submit([leased(1)])
        assert [finished.get(timeout=5) for _ in range(4)] == [1, 2, 3, 4]
    finally:
        loop.stop()
        loop.join(5)


def test_jobs_that_wait_for_a_slot_are_returned_unsent(
    loop: FetchLoop, pipeline: FakePipeline, finished: "queue.Queue[JobOutcome]"
) -> None:
    pipeline.seconds = 1.0
    loop.submit([leased(number) for number in range(4)])
    while len(pipeline.sent) < 2:
        pass
    loop.release_jobs(None)
    states = [(outcome.job.id, outcome.state) for outcome in (finished.get(timeout=5) for _ in range(4))]
    assert states == [(2, JobState.READY), (3, JobState.READY), (0, JobState.DONE), (1, JobState.DONE)]
    assert pipeline.sent == [0, 1]
    assert loop.active_count == 0


@pytest.mark.parametrize("send_at", [None, 1.0])
def test_a_job_that_is_released_before_its_first_step_is_returned_once(
    loop: FetchLoop, pipeline: FakePipeline, finished: "queue.Queue[JobOutcome]", send_at: float | None
) -> None:
    assert loop._loop is not None
    loop._loop.call_soon_threadsafe(time.sleep, 0.2)  # the loop then sees both calls at once
    loop.submit([change(leased(1), send_at=send_at)])
    loop.release_jobs("stop")
    assert finished.get(timeout=5).state is JobState.READY
    with pytest.raises(queue.Empty):
        finished.get(timeout=0.3)
    assert not pipeline.sent


def test_unsent_jobs_of_a_host_that_is_handed_over_are_returned_and_the_others_go_on(
    loop: FetchLoop, pipeline: FakePipeline, finished: "queue.Queue[JobOutcome]"
) -> None:
    pipeline.held = asyncio.Event()
    jobs = [leased(number)._replace(host=number % 2 + 1) for number in range(6)]
    loop.submit([*jobs, change(leased(6), send_at=1.0)])
    while len(pipeline.entered) < 3:
        pass
    loop.give_back({1})
    states = {outcome.job.id: outcome.state for outcome in (finished.get(timeout=5) for _ in range(4))}
    assert states == dict.fromkeys((0, 2, 4, 6), JobState.READY)
    assert loop._loop is not None
    loop._loop.call_soon_threadsafe(pipeline.held.set)
    states = {outcome.job.id: outcome.state for outcome in (finished.get(timeout=5) for _ in range(3))}
    assert states == dict.fromkeys((1, 3, 5), JobState.DONE)
    assert loop.active_count == 0


def test_a_job_that_waits_for_its_send_time_takes_no_slot_of_the_node(
    loop: FetchLoop, pipeline: FakePipeline, finished: "queue.Queue[JobOutcome]"
) -> None:
    loop.submit([change(leased(number), send_at=1.0) for number in range(4)])
    finished.get(timeout=5)
    assert len(pipeline.sent) == 4
    for _ in range(3):
        finished.get(timeout=5)


def test_two_leases_of_one_job_are_kept_apart(
    loop: FetchLoop, pipeline: FakePipeline, finished: "queue.Queue[JobOutcome]"
) -> None:
    loop.submit([leased(1), leased(1)._replace(lease=2)])
    assert {finished.get(timeout=5).job.lease for _ in range(2)} == {1, 2}
    assert loop.active_count == 0


def test_the_request_that_was_sent_first_is_named_with_its_age_and_limit(
    loop: FetchLoop, pipeline: FakePipeline, finished: "queue.Queue[JobOutcome]"
) -> None:
    assert loop.oldest_request == ("", 0.0, 0.0)

    def wait_for(url: str) -> None:
        deadline = time.monotonic() + 20
        while loop.oldest_request[0] != url and time.monotonic() < deadline:
            time.sleep(0.01)
        assert loop.oldest_request[0] == url

    pipeline.seconds = 1.0
    loop.submit([leased(1)])
    wait_for(leased(1).url)
    pipeline.seconds = 4.0
    loop.submit([change(leased(2), kind=JobKind.FILE)])
    time.sleep(0.3)
    url, age, limit = loop.oldest_request
    assert (url, limit) == (leased(1).url, 30.0)
    assert 0.3 <= age < 5
    finished.get(timeout=5)
    wait_for(leased(2).url)
    assert loop.oldest_request[2] == 0.0, "a download may take as long as it gives bytes"
    finished.get(timeout=9)
    wait_for("")
