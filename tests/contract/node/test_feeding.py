"""A committer and a leaser on a real store: one doorbell starts a crawl, its commits lease to the end."""

import threading
import time
from collections.abc import Callable, Iterator
from unittest.mock import Mock

import pytest

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobState, LeasedJob
from crawl_engine.node.capacity import ActiveJobs, Capacity, Intake
from crawl_engine.node.commit_queue import MAX_WAIT_SECONDS, CommitQueue
from crawl_engine.node.committer import Committer
from crawl_engine.node.ringer import Ringer
from crawl_engine.node.seen_set import SeenSet
from crawl_engine.node.slice import Leaser
from crawl_engine.queue import Doorbells
from crawl_engine.runtime.clock import store_time
from crawl_engine.settings import Settings
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.outcome import JobOutcome
from tests.contract.store.harness import Page, StoreHarness, child
from tests.unit.node.contexts import node_context

SITE = 200


class Node:
    """A node whose fetch loop is the test: it finishes jobs on request."""

    def __init__(self, store: StoreHarness, slots: int = 32) -> None:
        folder, epoch = store.folder, store.nodes[0]
        self.working: list[LeasedJob] = []
        self.changed = threading.Condition()
        self.given_back: set[int] = set()
        self.intake = Intake(folder, standby=False, min_free=0)
        self.jobs = ActiveJobs()
        wakeup = threading.Event()
        self.capacity = Capacity(slots, active_jobs=self.jobs, wakeup=wakeup)
        self.doorbells = Doorbells(folder, wakeup=wakeup)
        self.ringer = Ringer(folder, store.run, self.doorbells)
        self.commits = CommitQueue(self.capacity)
        node = node_context(
            folder=folder, run=store.context().row, epoch=epoch, settings=Settings(batch=32, live="PT0S"),
            def_cache=Mock(give_plan=lambda job: job),
        )  # fmt: skip
        self.leaser = Leaser(
            node, intake=self.intake, capacity=self.capacity, submit=self.submit, shared_jars=Mock(),
            ringer=self.ringer,
        )  # fmt: skip
        self.committer = Committer(
            node, queue=self.commits, placements=store.new_places(), seen_set=SeenSet(), ringer=self.ringer,
            capacity=self.capacity, leaser=self.leaser, give_back=self.given_back.update, on_idle=lambda: None,
        )  # fmt: skip

    def submit(self, jobs: list[LeasedJob]) -> None:
        with self.changed:
            self.working += jobs
            self.jobs.submitted += len(jobs)
            self.changed.notify()

    def finish(self, count: int) -> None:
        """Finish so many jobs; each page links to the next two."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.working) >= count, 10)
            done, self.working = self.working[:count], self.working[count:]
            self.jobs.completed += count
        for job in done:
            number = int(job.url.rpartition("/")[2])
            links = [Page(f"http://a/{n}") for n in (2 * number + 1, 2 * number + 2) if n < SITE]
            self.commits.put(
                JobOutcome(
                    job=job, state=JobState.DONE, attempts=1, effects=(Children(tuple(child(link) for link in links)),)
                )
            )


@pytest.fixture
def node(store: StoreHarness) -> Iterator[Node]:
    node = Node(store)
    node.committer.start()
    yield node
    node.committer.stop()
    node.committer.join(5)
    node.doorbells.close()


def test_one_doorbell_starts_a_crawl_and_its_commits_lease_to_the_end(store: StoreHarness, node: Node) -> None:
    store.seed("http://a/0")
    node.leaser.lease_rung()
    done = 0
    while done < SITE:
        count = max(1, len(node.working) * 3 // 4)
        node.finish(count)
        done += count
    with node.changed:
        node.changed.wait_for(lambda: node.capacity.held == 0, 5)
    node.committer.stop()
    node.committer.join(5)
    assert store.stored_counters()[1]["done"] == SITE
    assert node.capacity.held == 0
    assert node.capacity.after_commit([]) == (0, 40, {})
    assert node.working == []


def work_series(node: Node, last: int, *, patience: float = 10, seconds: float = 0) -> None:
    """Work pages that lead to one page each, one after another; each takes so many seconds."""
    number = 0
    while number < last:
        with node.changed:
            assert node.changed.wait_for(lambda: node.working, patience)
            (job,) = node.working
            node.working = []
            node.jobs.completed += 1
        time.sleep(seconds)
        number = int(job.url.rpartition("/")[2])
        links = [child(Page(f"http://a/{number + 1}"))] if number < last else []
        node.commits.put(JobOutcome(job=job, state=JobState.DONE, attempts=1, effects=(Children(tuple(links)),)))


def test_a_series_is_worked_page_by_page_and_committed_in_groups(store: StoreHarness, node: Node) -> None:
    store.seed("http://a/0")
    node.leaser.lease_rung()
    work_series(node, 80)
    node.committer.stop()
    node.committer.join(5)
    assert store.jobs("state") == [("DONE",)] * 81
    assert [parent for (parent,) in store.jobs("parent")][1:] == [id_ for (id_,) in store.jobs("id")][:-1]
    most = 20 if isinstance(store.db, SqliteDatabase) else 40
    assert store.db.value("SELECT count(DISTINCT changed_at) FROM jobs") <= most
    assert node.capacity.held == 0
    store.check_counters()


@pytest.mark.parametrize("settle", ["postgresql"], indirect=True)
def test_a_series_on_a_host_that_is_handed_over_waits_for_its_new_machine(store: StoreHarness, node: Node) -> None:
    store.seed("http://a/0")
    node.leaser.lease_rung()
    store.join_machine()
    with pytest.raises(AssertionError):
        work_series(node, 20, patience=1, seconds=2 * MAX_WAIT_SECONDS)
    assert len(store.jobs()) < 6
    assert store.jobs("state")[-1:] == [("READY",)]
    assert node.given_back == {store.place("http://a/0").host}


def test_a_next_page_that_cannot_be_written_fails_its_page_alone(store: StoreHarness, node: Node) -> None:
    store.seed("http://a/0", "http://a/100")
    node.leaser.lease_rung()
    (bad, good), node.working = node.working, []
    node.jobs.completed += 2
    unwritable = child(Page("http://a/1"))._replace(url="http://a/\ud800")
    node.commits.put(JobOutcome(job=bad, state=JobState.DONE, attempts=1, effects=(Children((unwritable,)),)))
    node.commits.put(JobOutcome(job=good, state=JobState.DONE, attempts=1))
    node.committer.stop()
    node.committer.join(5)
    assert not node.committer.is_alive()
    assert sorted(store.jobs()) == [("http://a/0", "FAILED"), ("http://a/100", "DONE")]
    store.check_counters()


def test_the_commits_of_a_draining_node_lease_nothing(store: StoreHarness, node: Node) -> None:
    store.seed("http://a/0")
    node.leaser.lease_rung()
    node.finish(1)
    with node.changed:
        assert node.changed.wait_for(lambda: len(node.working) == 2, 10)
    node.intake.draining.set()
    node.finish(2)
    node.committer.stop()
    node.committer.join(5)
    assert node.capacity.held == 0
    assert node.working == []
    assert store.stored_counters()[1]["done"] == 3


def test_a_host_with_a_delay_is_served_beside_a_host_that_fills_every_commit(
    new_store: Callable[..., StoreHarness],
) -> None:
    """Only a doorbell serves a host with a delay. Beside it a fast host's commits follow each other without a pause."""
    store = new_store(slots=16, policies={"a:80": HostPolicy(0, 100, False), "b:80": HostPolicy(0.1, 100, False)})
    store.now = store_time()
    store.seed(*(f"http://a/{n}" for n in range(20_000)))
    store.seed(*(f"http://b/{n}" for n in range(50)))
    node = Node(store, slots=16)

    def fetch() -> None:
        """Finish every job 10 ms after its start, or after its send time."""
        started: dict[int, float] = {}
        end = store_time() + 3.0
        while (now := store_time()) < end:
            with node.changed:
                for job in node.working:
                    started.setdefault(job.id, max(now, job.terms.send_at or 0.0))
                due = [job for job in node.working if started[job.id] + 0.01 <= now]
                node.working = [job for job in node.working if job not in due]
                node.jobs.completed += len(due)
            for job in due:
                node.commits.put(JobOutcome(job=job, state=JobState.DONE, attempts=1))
            node.capacity.notify_freed()
            time.sleep(0.002)
        node.doorbells.stop()

    loop = threading.Thread(target=fetch)
    for thread in (node.ringer, node.committer, loop):
        thread.start()
    node.doorbells.ring()
    node.doorbells.consume(node.leaser)
    loop.join()
    node.committer.stop()
    node.committer.join(5)
    node.ringer.stop()
    node.ringer.join(5)
    node.doorbells.close()
    done = [job for (job,) in store.db.all("SELECT url FROM jobs WHERE state = 'DONE'")]
    polite = sum(url.startswith("http://b/") for url in done)
    assert polite >= 15, f"{polite} of the 30 its delay allows; {len(done) - polite} of the other host"
