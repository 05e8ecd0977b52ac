"""A committer and a slicer on a real store: one ring begins a crawl, and its commits feed the node to the end."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from engine.model.job import JobState, LeasedJob
from engine.node.capacity import Capacity
from engine.node.committer import Committer
from engine.node.ringer import Ringer
from engine.node.seen_set import SeenSet
from engine.node.slice import Leaser
from engine.queue import Doorbells
from engine.runtime.clock import boottime
from engine.store.tables.hosts import HostPolicy
from engine.store.transactions.outcome import JobOutcome
from tests.contract.store.harness import Page, StoreHarness, child

SITE = 200


@dataclass
class Node:
    """One whose loop is this test: it finishes jobs when it is told to."""

    store: StoreHarness
    slots: int = 32
    draining: bool = False
    working: list[LeasedJob] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        store, epoch = self.store, self.store.nodes[0]
        self.bells = Doorbells(
            store.folder, on_slice=lambda rung: self.slicer.lease_rung(rung), gate=lambda: self.room.should_dequeue(),
            capacity=lambda: self.room.free,
        )  # fmt: skip
        self.ringer = Ringer(store.folder, store.run, lambda: self.bells)
        self.room = Capacity(self.slots, count_active=lambda: len(self.working), wake=self.bells.wake)
        self.slicer = Leaser(
            store.folder, node=epoch, batch=32, capacity=self.room, submit=self.submit, fresh_since=lambda _: 0.0,
            ringer=self.ringer, on_fenced=lambda: None, on_error=self.fail,
        )  # fmt: skip
        self.committer = Committer(
            store.folder, node=epoch, run=store.run, places=store.new_places(), seen_set=SeenSet(), ringer=self.ringer,
            capacity=self.room, refill_leaser=lambda: None if self.draining else self.slicer, on_fenced=lambda: None,
            on_error=self.fail,
        )  # fmt: skip

    def submit(self, jobs: list[LeasedJob]) -> None:
        with self.news:
            self.working += jobs
            self.news.notify()

    def fail(self, error: Exception) -> None:
        raise AssertionError from error

    def finish(self, count: int) -> None:
        """Finish so many jobs; each page links to the next two."""
        with self.news:
            assert self.news.wait_for(lambda: len(self.working) >= count, 10)
            done, self.working = self.working[:count], self.working[count:]
        for job in done:
            number = int(job.url.rpartition("/")[2])
            links = [Page(f"http://a/{n}") for n in (2 * number + 1, 2 * number + 2) if n < SITE]
            self.committer.add(
                JobOutcome(job=job, state=JobState.DONE, attempts=1, children=tuple(child(link) for link in links))
            )


@pytest.fixture
def node(store: StoreHarness) -> Iterator[Node]:
    made = Node(store)
    made.committer.start()
    yield made
    made.committer.stop()
    made.committer.join(5)
    made.bells.close()


def test_one_ring_begins_a_crawl_and_its_commits_feed_it_to_the_end(store: StoreHarness, node: Node) -> None:
    rung = store.seed("http://a/0")
    node.slicer.lease_rung(rung)
    done = 0
    while done < SITE:
        count = max(1, len(node.working) * 3 // 4)
        node.finish(count)
        done += count
    with node.news:
        node.news.wait_for(lambda: node.room.held == 0, 5)
    node.committer.stop()
    node.committer.join(5)
    assert store.stored_counters()[1]["done"] == SITE
    assert node.room.held == 0
    assert node.room.after_commit([]) == (0, 40, {})
    assert node.working == []


def test_a_node_that_drains_is_not_fed(store: StoreHarness, node: Node) -> None:
    node.slicer.lease_rung(store.seed("http://a/0"))
    node.finish(1)
    with node.news:
        assert node.news.wait_for(lambda: len(node.working) == 2, 10)
    node.draining = True
    node.finish(2)
    node.committer.stop()
    node.committer.join(5)
    assert node.room.held == 0
    assert node.working == []
    assert store.stored_counters()[1]["done"] == 3


def test_a_polite_host_is_not_forgotten_beside_one_that_feeds_every_commit(
    new_store: Callable[..., StoreHarness],
) -> None:
    """Only the queue can serve a host with a delay. Beside it a fast host's commits follow each other all the time."""
    store = new_store(slots=16, policies={"a:80": HostPolicy(0, 100, False), "b:80": HostPolicy(0.1, 100, False)})
    store.now = boottime()
    rung = store.seed(*(f"http://a/{n}" for n in range(20_000))) + store.seed(*(f"http://b/{n}" for n in range(50)))
    node = Node(store, slots=16)

    def fetch() -> None:
        """Every job is answered 10 ms after it was begun, or after its send time."""
        begun: dict[int, float] = {}
        end = boottime() + 3.0
        while (now := boottime()) < end:
            with node.news:
                for job in node.working:
                    begun.setdefault(job.id, max(now, job.send_at or 0.0))
                due = [job for job in node.working if begun[job.id] + 0.01 <= now]
                node.working = [job for job in node.working if job not in due]
            for job in due:
                node.committer.add(JobOutcome(job=job, state=JobState.DONE, attempts=1))
            node.room.notify_freed()
            time.sleep(0.002)
        node.bells.stop()

    loop = threading.Thread(target=fetch)
    for thread in (node.ringer, node.committer, loop):
        thread.start()
    node.bells.ring(rung)
    node.bells.consume()
    loop.join()
    node.committer.stop()
    node.committer.join(5)
    node.ringer.stop()
    node.ringer.join(5)
    node.bells.close()
    done = [job for (job,) in store.db.all("SELECT url FROM jobs WHERE state = 'DONE'")]
    polite = sum(url.startswith("http://b/") for url in done)
    assert polite >= 15, f"{polite} of 30 that its delay allows; {len(done) - polite} of the other host"
