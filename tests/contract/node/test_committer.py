"""The committer thread on a real store: a result that came too late leaves no link taken for known."""

import queue
import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from engine.model.job import LeasedJob
from engine.model.record import ExtractedLink
from engine.node.capacity import Capacity
from engine.node.committer import Committer
from engine.node.ringer import Ringer
from engine.node.seen_set import SeenSet
from engine.queue import Doorbells
from engine.store.tables import jobs, sequences
from engine.store.transactions.outcome import JobOutcome
from tests.contract.store.harness import Page, StoreHarness, child

SITE = 60


@dataclass
class Desk:
    """A committer with its seen-set, and what it said to have committed."""

    committer: Committer
    seen: SeenSet
    result: "queue.Queue[int]"
    room: Capacity
    idle: "queue.Queue[int]"
    """The jobs done so far, each time no job was left."""

    def commit(self, finished: JobOutcome) -> None:
        self.committer.add(finished)
        assert self.result.get(timeout=10) == 1


class ToldRoom(Capacity):
    """Tells how many jobs were committed together."""

    def __init__(self, result: "queue.Queue[int]") -> None:
        super().__init__(1, count_active=lambda: 0, wake=lambda: None)
        self._told = result

    def release(self, jobs: Sequence[LeasedJob]) -> None:
        super().release(jobs)
        self._told.put(len(jobs))


@pytest.fixture
def desk(store: StoreHarness) -> Desk:
    bells = Doorbells(store.folder)
    seen, result, idle = SeenSet(), queue.Queue[int](), queue.Queue[int]()
    room = ToldRoom(result)
    ringer = Ringer(store.folder, store.run, lambda: bells)
    committer = Committer(
        store.folder,
        node=store.nodes[0],
        run=store.run,
        places=store.new_places(),
        seen_set=seen,
        ringer=ringer,
        capacity=room,
        refill_leaser=lambda: None,
        on_idle=lambda: idle.put(committer.done),
        on_fenced=lambda: None,
        on_error=lambda error: result.put(-1),
    )
    committer.start()
    yield Desk(committer, seen, result, room, idle)
    committer.stop()
    committer.join(5)
    bells.close()


@pytest.mark.parametrize("seed", range(3))
def test_results_dropped_and_retried_lose_no_page(store: StoreHarness, desk: Desk, seed: int) -> None:
    """Each page links to the next two; a fifth of the results lose their lease before they are committed.

    A link is made a child only where the node does not know it yet, as harvesting does.
    """
    dice = random.Random(seed)
    store.seed("http://a/0")
    sequence = store.sequence("http://a/0")
    dropped = 0
    while got := store.lease(sequence, free=4).jobs:
        for job in got:
            number = int(job.url.rpartition("/")[2])
            links = [Page(f"http://a/{n}") for n in (number + 1, number + 2) if n < SITE]
            found = {ExtractedLink(link.url, link.group, 0, None, child(link).identity): link for link in links}
            unknown = [found[link] for link in desk.seen.filter_new(found)]
            if dice.random() < 0.2:
                dropped += 1
                with store.db.transaction():
                    jobs.release_all(store.db, store.run, "its node died")
                    sequences.recount_taken(store.db, store.run)
            desk.commit(store.done(job, links=unknown))
    assert dropped > 5
    assert sorted(store.jobs("url, state")) == sorted((f"http://a/{n}", "DONE") for n in range(SITE))
    store.check_counters()


def test_the_commit_that_leaves_the_node_without_a_job_says_so(store: StoreHarness, desk: Desk) -> None:
    for number in range(3):
        store.seed(f"http://a/{number}")
    got = store.lease(store.sequence("http://a/0"), free=3).jobs
    desk.room.add_leased(got)
    for job in got:
        assert desk.idle.empty()
        desk.commit(store.done(job))
    assert desk.idle.get(timeout=10) == 3
