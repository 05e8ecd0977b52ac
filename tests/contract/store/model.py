"""A store with a supervisor and nodes in one thread, and a small model of the invariants."""

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant

from crawl_engine.errors import Fenced
from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobKind, JobState, LeasedJob, link_key, quota
from crawl_engine.model.node import HeartbeatState, NodeState, Role
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.host.hosts import Backoff
from crawl_engine.store.tables.job import jobs, rings, sequences
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.row.rows import NewRows, RejectedRecords
from crawl_engine.store.tables.run import nodes, runs
from crawl_engine.store.transactions.next_page import lease_next_page
from crawl_engine.store.transactions.robots import RobotsResult
from tests.contract.store.harness import Page, StoreHarness, again, failed, moved

HOSTS = {
    "a:80": HostPolicy(delay=0.0, concurrency=3, robots=False),
    "b:80": HostPolicy(delay=0.3, concurrency=2, robots=False),
    "c:80": HostPolicy(delay=0.0, concurrency=2, robots=True),
    "d:80": HostPolicy(delay=0.0, concurrency=50, robots=False),
}
SLOTS = 6
"""Of one runner."""


class Model(RuleBasedStateMachine):
    """The steps and the invariants for tests with events in any order."""

    prepared: Path
    settle: Callable[[Path], None]
    """Gives a data dir its store."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        type(self).settle(self.folder / "h")
        self.store = StoreHarness(self.folder / "h", copy_of=self.prepared, policies=HOSTS, nodes_=2, slots=2 * SLOTS)
        self.db = self.store.db
        self.alive = list(self.store.nodes)
        self.backups: list[int] = []
        self.dead: list[int] = []
        self.results: list[tuple[int, LeasedJob]] = []
        """Jobs that nodes hold or once held: results may come late, and twice."""
        self.live: dict[int, tuple[int, int]] = {}
        """By job: its current lease and node."""
        self.finished: Counter[int] = Counter()
        self.crashes: Counter[int] = Counter()
        self.truth: list[tuple[int, str]] = []
        self.rejected = 0
        self.expected_pages: set[tuple[str, str]] = set()
        """Group and URL of every page that a locator or a committed link names."""
        self.doorbell = self.lost = False
        """Whether a doorbell waits in the queue, and whether one was lost since the last repair."""
        self.sent: dict[int, float] = {}
        """By host with a delay: the last send time that is reserved."""
        self.words = itertools.count()

    # Invariants.

    @invariant()
    def counters_equal_the_jobs(self) -> None:
        self.store.check_counters()
        self.store.check_sums()

    @invariant()
    def taken_jobs_are_those_with_a_valid_lease(self) -> None:
        taken = self.db.all("SELECT id, lease, node FROM jobs WHERE state = 'TAKEN'")
        assert {id_: (lease, node) for id_, lease, node in taken} == self.live

    @invariant()
    def no_host_exceeds_its_limit(self) -> None:
        """Nodes hold up to four times its concurrency in spare jobs; their gates limit what is sent at once."""
        over = """SELECT h.key FROM hosts h
            WHERE (SELECT sum(taken) FROM sequences WHERE host = h.id) > 5 * h.concurrency"""
        assert self.db.all(over) == []

    @invariant()
    def no_page_is_fetched_twice_at_once(self) -> None:
        twice = "SELECT 1 FROM jobs WHERE state = 'TAKEN' GROUP BY coalesce(target, url) HAVING count(*) > 1"
        assert self.db.all(twice) == []

    @invariant()
    def rows_are_those_of_accepted_results(self) -> None:
        assert self.store.rows() == self.truth
        kept = self.db.one("SELECT rows, rejected FROM row_counts") or (0, 0)
        assert kept == (len(self.truth), self.rejected)

    @invariant()
    def a_job_is_finished_once(self) -> None:
        assert not [job for job, times in self.finished.items() if times > 1]
        done = {row[0] for row in self.db.all("SELECT id FROM jobs WHERE state IN ('DONE','FAILED','SKIPPED')")}
        assert done == set(self.finished)

    @invariant()
    def every_expected_page_has_a_job(self) -> None:
        assert set(self.db.all("SELECT DISTINCT s.grp, j.url FROM jobs j JOIN sequences s ON s.id = j.sequence"
                               " WHERE j.hops = 0 AND s.kind = 'page'")) <= self.expected_pages  # fmt: skip
        identities = {row[0] for row in self.db.all("SELECT identity FROM jobs UNION SELECT page_key FROM jobs")}
        assert {link_key(group, url) for group, url in self.expected_pages} <= identities

    @invariant()
    def a_doorbell_waits_while_sequences_are_rung(self) -> None:
        assert self.doorbell or self.lost or not self.store.rung()

    # Helpers.

    def lease(self, node: int, free: int, batch: int) -> None:
        self.doorbell = False
        before = self.store.stored_counters()
        active = sum(c["ready"] + c["taken"] > 0 for c in before.values())
        slots = SLOTS * len(self.alive)
        waiting = self.store.rung()
        leases = self.store.lease_rung(node=node, free=free, batch=batch)
        bound = quota(active, slots)
        fair = bound if active <= 1 else max(1, int(0.9 * bound))
        assert sum(len(got.jobs) for got in leases) <= free
        for index, got in enumerate(leases):
            others = len(waiting) - 1 - sum(earlier.ends_ring for earlier in leases[:index])
            for sequence in {job.sequence for job in got.jobs}:
                assert len(got.jobs) <= batch
                assert len(got.jobs) <= max(0, (fair if others else slots) - before[sequence]["taken"])
            self.takes(node, got.jobs)
        if len(leases) > free or any(got.ring for got in leases):
            self.doorbell = True

    def takes(self, node: int, leased: Iterable[LeasedJob]) -> None:
        for job in leased:
            assert job.id not in self.live
            self.live[job.id] = (job.lease, node)
            self.results.append((node, job))
            if job.terms.delay:
                assert job.terms.send_at is not None
                assert job.terms.send_at >= max(self.store.now, self.sent.get(job.host, 0.0) + job.terms.delay) - 1e-6
                self.sent[job.host] = job.terms.send_at

    def returns_turn(self, job: LeasedJob) -> None:
        """The host is reserved for one turn less, whichever turn was not used: the gate of the host keeps the gap."""
        free_at = self.sent[job.host] + job.terms.delay
        if free_at > self.store.now:
            self.sent[job.host] = max(self.store.now, free_at - job.terms.delay) - job.terms.delay

    def result(self, job: LeasedJob, outcome: str, links: list[Page]) -> JobOutcome:
        if job.kind is JobKind.ROBOTS:
            result = RobotsResult(404, "", 0.0, fetched_at=1.0)
            return JobOutcome(job=job, state=JobState.DONE, attempts=1, effects=(result,))
        later = self.store.now + 0.7
        match outcome:
            case "failed":
                return failed(job)
            case "skipped":
                return JobOutcome(job=job, state=JobState.SKIPPED, reason="gone")
            case "retry":
                return again(job)
            case "later":
                return again(job, later)
            case "moved" if links:
                return moved(job, links[0].url)
            case "cut":
                return JobOutcome(job=job, state=JobState.INCOMPLETE, reason="cut off")
            case "backoff":
                return JobOutcome(job=job, state=JobState.READY, not_before=later, effects=(Backoff(later),))
        words = [f'"{next(self.words)}"' for _ in range(job.id % 3)]
        return self.store.done(job, RejectedRecords("book", 1), data=words, links=links)

    def commit_all(self, node: int, links: list[Page]) -> None:
        if mine := [job for epoch, job in self.results if epoch == node]:
            self.commit(node, [self.result(job, "done", links) for job in mine], keep=False)

    def commit(self, node: int, group: list[JobOutcome], keep: bool, *, refill: bool = False) -> None:
        accepted = [f for f in group if self.live.get(f.job.id) == (f.job.lease, node)]
        if node in self.dead:
            before = self.all_tables()
            with pytest.raises(Fenced):
                self.store.commit(*group, node=node)
            assert self.all_tables() == before
            return
        held = sum(holder == node for _, holder in self.live.values()) - len(accepted)
        result = self.store.commit(*group, node=node, free=len(group) if refill else 0, held=held)
        assert result.accepted_ids == {f.job.id for f in accepted}
        for f in accepted:
            del self.live[f.job.id]
            if f.state in (JobState.DONE, JobState.FAILED, JobState.SKIPPED):
                self.finished[f.job.id] += 1
            self.truth += [(f.job.id, text) for new in f.find_all(NewRows) for text in new.texts]
            self.rejected += sum(rejected.records for rejected in f.find_all(RejectedRecords))
            self.expects(f)
            if f.unused_turn:
                self.returns_turn(f.job)
        if not keep:
            ids = {f.job.id for f in group}
            self.results = [(n, j) for n, j in self.results if n != node or j.id not in ids]
        self.ring(result.ring)
        assert len(result.leased) <= len(group)
        assert not result.leased or refill
        assert all(len(result.leased) == 1 and not held for job in result.leased if job.crashes), "a suspect runs alone"
        self.takes(node, result.leased)

    def advance(self, node: int, outcome: JobOutcome, commits: bool) -> None:
        """Lease the page to which a finished one leads; then, with `commits`, commit that one."""
        request = self.store.lease_request(
            node=node, free=4, held=sum(holder == node for _, holder in self.live.values())
        )
        before = self.all_tables()
        if node in self.dead:
            with pytest.raises(Fenced):
                lease_next_page(self.db, self.store.run, outcome, self.store.places, self.store.now, request)
            assert self.all_tables() == before
            return
        result = lease_next_page(self.db, self.store.run, outcome, self.store.places, self.store.now, request)
        if self.live.get(outcome.job.id) != (outcome.job.lease, node):
            assert result is None
            assert self.all_tables() == before
            return
        assert result is not None
        self.expects(outcome)
        outcome.remove(Children)
        self.ring(result.ring)
        self.takes(node, result.leased)
        if commits:
            self.commit(node, [outcome], keep=False)

    def expects(self, outcome: JobOutcome) -> None:
        self.expected_pages |= {(c.group, c.url) for made in outcome.find_all(Children) for c in made.jobs}

    def release(self, node: int, *, crashed: bool) -> None:
        with self.db.transaction():
            freed = jobs.release(self.db, node, "died", crashed=crashed)
            sequences.recount_taken(self.db, self.store.run)
            if crashed:
                hosts.abandon_robots(self.db, self.store.run)
            rung = rings.ring_all(self.db, self.store.run, self.store.now)
        mine = [job for job, (_, holder) in self.live.items() if holder == node]
        assert freed == len(mine)
        for job in mine:
            del self.live[job]
            self.crashes[job] += crashed
            if self.crashes[job] >= jobs.MAX_CRASHES:
                self.finished[job] += 1
        self.ring(rung)

    def mark_dead(self, node: int, crashed: bool) -> None:
        with self.db.transaction():
            assert nodes.set_state(self.db, node, NodeState.DEAD)
            nodes.set_heart(self.db, node, HeartbeatState.ASYSTOLE)
            nodes.set_role(self.db, node, Role.DEAD_RUNNER)
            if self.backups:
                assert nodes.set_role(self.db, self.backups[0], Role.RUNNER)
                self.alive.append(self.backups.pop(0))
        self.alive.remove(node)
        self.dead.append(node)
        self.release(node, crashed=crashed)
        self.resize()

    def resize(self) -> None:
        with self.db.transaction():
            assert nodes.count_runners(self.db, self.store.run) == len(self.alive)
            runs.set_slots(self.db, self.store.run, SLOTS * len(self.alive))

    def ring(self, listed: Iterable[int]) -> None:
        self.doorbell |= bool(list(listed))

    def all_tables(self, db: Database | None = None) -> list[Any]:
        tables = ("jobs", "sequences", "hosts", "rows", "row_counts", "runs")
        return [sorted((db or self.db).all(f"SELECT * FROM {table}"), key=repr) for table in tables]
