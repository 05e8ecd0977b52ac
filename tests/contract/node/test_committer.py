"""The committer thread on a real store: a rejected result leaves no link in the seen-set."""

import queue
import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unittest.mock import Mock

import pytest

from crawl_engine.model.job import LeasedJob
from crawl_engine.model.record import ExtractedLink
from crawl_engine.node import committer
from crawl_engine.node.capacity import ActiveJobs, Capacity, Intake
from crawl_engine.node.commit_queue import CommitQueue
from crawl_engine.node.committer import MAX_CHILDREN, Committer
from crawl_engine.node.ringer import Ringer
from crawl_engine.node.seen_set import SeenSet
from crawl_engine.node.slice import Leaser
from crawl_engine.queue import Doorbells
from crawl_engine.store.db.connector import Database
from crawl_engine.store.pages.body import Body
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.job import jobs, linked_jobs, sequences
from crawl_engine.store.tables.job.linked_jobs import NewLink
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.transactions.commit import commit
from tests.contract.store.harness import Page, StoreHarness, child
from tests.unit.node.contexts import node_context

SITE = 60


@dataclass
class CommitterParts:
    """A committer, its seen-set, and the sizes of its commits."""

    commits: CommitQueue
    seen: SeenSet
    sizes: "queue.Queue[int]"
    capacity: Capacity
    idle: "queue.Queue[int]"
    """The jobs done so far, each time no job was left."""

    def commit(self, outcome: JobOutcome) -> None:
        self.commits.put(outcome)
        assert self.sizes.get(timeout=10) == 1


class RecordingCapacity(Capacity):
    """Records how many jobs were committed together."""

    def __init__(self, sizes: "queue.Queue[int]") -> None:
        super().__init__(1, active_jobs=ActiveJobs(), wakeup=threading.Event())
        self._sizes = sizes

    def release(self, jobs: Sequence[LeasedJob]) -> None:
        super().release(jobs)
        self._sizes.put(len(jobs))


@pytest.fixture
def parts(store: StoreHarness) -> Iterator[CommitterParts]:
    doorbells = Doorbells(store.folder)
    seen, sizes, idle = SeenSet(), queue.Queue[int](), queue.Queue[int]()
    capacity = RecordingCapacity(sizes)
    commits = CommitQueue(capacity)
    ringer = Ringer(store.folder, store.run, doorbells)
    node = node_context(
        folder=store.folder, run=store.context().row, epoch=store.nodes[0], on_error=lambda error: sizes.put(-1)
    )
    closed = Intake(store.folder, standby=True, min_free=0)
    leaser = Leaser(node, intake=closed, capacity=capacity, submit=Mock(), shared_jars=Mock(), ringer=ringer)
    committer = Committer(
        node,
        queue=commits,
        placements=store.new_places(),
        seen_set=seen,
        ringer=ringer,
        capacity=capacity,
        leaser=leaser,
        give_back=lambda _: None,
        on_idle=lambda: idle.put(committer.done),
    )
    committer.start()
    yield CommitterParts(commits, seen, sizes, capacity, idle)
    committer.stop()
    committer.join(5)
    doorbells.close()


@pytest.mark.parametrize("seed", range(3))
def test_results_dropped_and_retried_lose_no_page(store: StoreHarness, parts: CommitterParts, seed: int) -> None:
    """Each page links to the next two; a fifth of the results lose their lease before they are committed.

    A link becomes a child only where the node does not know it yet, as in extraction.
    """
    dice = random.Random(seed)
    store.seed("http://a/0")
    sequence = store.sequence("http://a/0")
    dropped = 0
    while got := store.lease(sequence, free=4).jobs:
        for job in got:
            number = int(job.url.rpartition("/")[2])
            links = [Page(f"http://a/{n}") for n in (number + 1, number + 2) if n < SITE]
            pages = {ExtractedLink(link.url, link.group, 0, None, child(link).identity): link for link in links}
            new = [pages[link] for link in parts.seen.filter_new(pages)]
            if dice.random() < 0.2:
                dropped += 1
                with store.db.transaction():
                    jobs.release_all(store.db, store.run, "its node died")
                    sequences.recount_taken(store.db, store.run)
            parts.commit(store.done(job, links=new))
    assert dropped > 5
    assert sorted(store.jobs("url, state")) == sorted((f"http://a/{n}", "DONE") for n in range(SITE))
    store.check_counters()


def test_the_commit_that_leaves_the_node_without_a_job_reports_it(store: StoreHarness, parts: CommitterParts) -> None:
    for number in range(3):
        store.seed(f"http://a/{number}")
    got = store.lease(store.sequence("http://a/0"), free=3).jobs
    parts.capacity.add_leased(got)
    for job in got:
        assert parts.idle.empty()
        parts.commit(store.done(job))
    assert parts.idle.get(timeout=10) == 3


def test_many_children_are_committed_in_pieces(
    store: StoreHarness, parts: CommitterParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    add_links = linked_jobs.add_links

    def record(db: Database, links: Sequence[NewLink]) -> None:
        sizes.append(len(links))
        add_links(db, links)

    monkeypatch.setattr(linked_jobs, "add_links", record)
    store.seed("http://a/")
    (job,) = store.take("http://a/")
    children = [Page(f"http://a/{number}") for number in range(2 * MAX_CHILDREN + 500)]
    parts.commit(store.done(job, links=children))
    assert max(sizes) <= MAX_CHILDREN
    assert sum(sizes) == len(children)
    assert store.db.value("SELECT count(*) FROM jobs WHERE state = 'READY'") == len(children)
    links = [ExtractedLink(page.url, "g", 0, None, child(page).identity) for page in children]
    assert parts.seen.filter_new(links) == []


def test_a_page_whose_children_cannot_be_written_fails_alone(
    store: StoreHarness, parts: CommitterParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(db: Database, links: Sequence[NewLink]) -> None:
        if links:
            raise ValueError("unwritable")

    monkeypatch.setattr(linked_jobs, "add_links", refuse)
    store.seed("http://a/")
    (job,) = store.take("http://a/")
    parts.commit(store.done(job, links=[Page(f"http://a/{number}") for number in range(MAX_CHILDREN + 1)]))
    assert store.jobs() == [("http://a/", "FAILED")]


@pytest.mark.parametrize("lost", [False, True])
def test_an_outcome_is_settled_when_committed_and_when_its_lease_is_lost(
    store: StoreHarness, parts: CommitterParts, lost: bool
) -> None:
    store.seed("http://a/0")
    [job] = store.lease(store.sequence("http://a/0"), free=4).jobs
    if lost:
        with store.db.transaction():
            jobs.release_all(store.db, store.run, "its node died")
            sequences.recount_taken(store.db, store.run)
    outcome = store.done(job)
    settled: list[int] = []
    outcome.release_when_settled(lambda: settled.append(1))
    parts.commit(outcome)
    assert settled == [1]
    assert not outcome.effects


def test_a_large_body_is_dropped_before_its_rows_are_committed(
    store: StoreHarness, parts: CommitterParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bytes | None] = []

    def record(*args: object, **more: object) -> object:
        held.extend(outcome.find(NewDocument).body.plain for outcome in args[3])  # type: ignore[attr-defined]
        return commit(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(committer, "commit", record)
    store.seed("http://a/")
    (job,) = store.take("http://a/")
    body = b"<p>x</p>" * 200_000
    document = NewDocument((b"k" * 16,), "http://a/", 200, "text/html", 0.0, (), Body(body))
    parts.commit(store.done(job, document))
    assert held == [None]
    assert store.db.all("SELECT size FROM documents") == [(len(body),)]
    [(page,)] = store.db.all("SELECT id FROM documents")
    assert PageStore(store.folder).read(page) == body
