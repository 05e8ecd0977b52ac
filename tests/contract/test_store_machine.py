"""Any order of seeding, leasing, committing, dying and coming back: nothing is lost, doubled or miscounted."""

import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from store_house import House, Page, again, failed, moved

from engine.errors import Fenced
from engine.model.fairness import quota
from engine.model.identity import link_key
from engine.model.job import JobKind, JobState, LeasedJob
from engine.model.node import Heart, NodeState, Role
from engine.store import jobs, nodes, runs, sequences
from engine.store.commit import Finished, Robots
from engine.store.hosts import Manners

HOSTS = {
    "a:80": Manners(delay=0.0, concurrency=3, robots=False),
    "b:80": Manners(delay=0.3, concurrency=2, robots=False),
    "c:80": Manners(delay=0.0, concurrency=2, robots=True),
    "d:80": Manners(delay=0.0, concurrency=50, robots=False),
}
SLOTS = 6
"""Of one runner."""

pages = st.builds(
    lambda host, number, group: Page(f"http://{host}/{number}", group),
    st.sampled_from([key[0] for key in HOSTS]),
    st.integers(0, 9),
    st.sampled_from(["g", "h"]),
)
outcomes = st.sampled_from(["done", "done", "done", "failed", "skipped", "retry", "later", "moved", "cut", "backoff"])


class Crawl(RuleBasedStateMachine):
    """The store under a supervisor and its nodes, all in this one thread, beside a small model of what must hold."""

    prepared: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.house = House(self.folder / "h", made_from=self.prepared, manners=HOSTS, nodes_=2, slots=2 * SLOTS)
        self.db = self.house.db
        self.alive = list(self.house.nodes)
        self.backups: list[int] = []
        self.dead: list[int] = []
        self.results: list[tuple[int, LeasedJob]] = []
        """What nodes hold or once held: results may come late, and twice."""
        self.live: dict[int, tuple[int, int]] = {}
        """By job: lease and node that hold it now."""
        self.finished: Counter[int] = Counter()
        self.truth: list[tuple[int, str]] = []
        self.rejected = 0
        self.wanted: set[tuple[str, str]] = set()
        """Group and URL of every page that a committed result or a locator asked for."""
        self.bells: Counter[int] = Counter()
        self.lost: set[int] = set()
        self.sent: dict[int, float] = {}
        self.words = itertools.count()

    def teardown(self) -> None:
        try:
            self._crawl_to_the_end()
        finally:
            self.house.close()
            shutil.rmtree(self.folder)

    # What a supervisor does.

    @rule(listed=st.lists(pages, min_size=1, max_size=6), name=st.sampled_from("xy"), priority=st.integers(-1, 1))
    def seed(self, listed: list[Page], name: str, priority: int) -> None:
        for group in ("g", "h"):
            if chosen := [page.url for page in listed if page.group == group]:
                self._ring(self.house.seed(*chosen, group=group, name=name, priority=priority))
        self.wanted |= {(page.group, page.url) for page in listed}

    @precondition(lambda self: len(self.alive) + len(self.backups) < 4)
    @rule(backup=st.booleans())
    def start_node(self, backup: bool) -> None:
        if backup:
            self.backups.append(self.house.node(Role.BACKUP_RUNNER))
        else:
            self.alive.append(self.house.node())
        self._resize()

    @precondition(lambda self: self.alive and self.live)
    @rule(which=st.integers(0, 3), crashed=st.booleans(), late=st.booleans())
    def node_dies(self, which: int, crashed: bool, late: bool) -> None:
        node = self.alive[which % len(self.alive)]
        self._bury(node, crashed)
        if late:
            self._commit_all(node, [])

    @precondition(lambda self: self.alive and self.live)
    @rule(which=st.integers(0, 3), late=st.booleans())
    def jobs_are_taken_from_a_living_node(self, which: int, late: bool) -> None:
        """Not what a supervisor does: only the lease fences what the node says of them later."""
        node = self.alive[which % len(self.alive)]
        self._release(node, crashed=True)
        if late:
            self._commit_all(node, [])

    @rule()
    def repair(self) -> None:
        now = self.house.now
        with self.db.transaction():
            jobs.promote(self.db, self.house.run, now)
            lost = sequences.ring_lost(self.db, self.house.run, now + 1, now) if not self.bells.total() else []
            rung = sequences.ring_all(self.db, self.house.run, now)
        assert not lost or set(lost) == self.lost
        self.lost -= set(lost)
        self._ring(lost)
        self._ring(rung)

    @rule()
    def recount(self) -> None:
        before = self._standing()
        with self.db.transaction():
            sequences.recount(self.db, self.house.run)
            sequences.recount_taken(self.db, self.house.run)
            runs.recount(self.db, self.house.run)
        assert self._standing() == before

    @rule()
    def resume(self) -> None:
        with self.db.transaction():
            jobs.resume(self.db, self.house.run)

    @rule(paused=st.booleans(), which=st.integers(0, 8))
    def pause(self, paused: bool, which: int) -> None:
        with self.db.transaction():
            sequences.pause(self.db, self.house.run, which or None, paused)

    @rule(seconds=st.sampled_from([0.05, 0.3, 1.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.house.now += seconds

    @precondition(lambda self: self.bells)
    @rule()
    def lose_a_ring(self) -> None:
        sequence = min(self.bells)
        del self.bells[sequence]
        self.lost.add(sequence)

    # What nodes do.

    @precondition(lambda self: self.alive and self.bells)
    @rule(which=st.integers(0, 3), turn=st.integers(0, 5), free=st.integers(1, 8), batch=st.integers(1, 8))
    def answer_a_ring(self, which: int, turn: int, free: int, batch: int) -> None:
        listed = sorted(self.bells)
        self._lease(self.alive[which % len(self.alive)], listed[turn % len(listed)], free, batch)

    @precondition(lambda self: self.dead)
    @rule(which=st.integers(0, 3))
    def a_dead_node_asks(self, which: int) -> None:
        before = self._standing()
        with pytest.raises(Fenced):
            self.house.lease(1, node=self.dead[which % len(self.dead)])
        assert self._standing() == before

    @precondition(lambda self: self.results)
    @rule(data=st.data(), keep=st.booleans())
    def results_come(self, data: Any, keep: bool) -> None:
        """Of one node, in any order, some of them late; kept ones come again."""
        node = data.draw(st.sampled_from(sorted({node for node, _ in self.results})))
        mine = [job for epoch, job in self.results if epoch == node]
        chosen = data.draw(st.lists(st.sampled_from(mine), min_size=1, max_size=6, unique_by=lambda j: j.id))
        links = data.draw(st.lists(pages, max_size=3))
        self._commit(node, [self._result(job, data.draw(outcomes), links) for job in chosen], keep)

    @precondition(lambda self: self.results)
    @rule(data=st.data(), links=st.lists(pages, max_size=2))
    def every_held_job_is_done(self, data: Any, links: list[Page]) -> None:
        """Of one node, at once, those included whose lease is gone."""
        node = data.draw(st.sampled_from(sorted({node for node, _ in self.results})))
        self._commit_all(node, links)

    @precondition(lambda self: self.results)
    @rule(data=st.data())
    def a_job_goes_on_to_a_redirects_target(self, data: Any) -> None:
        node, job = data.draw(st.sampled_from(self.results))
        target = data.draw(pages).url
        with self.db.transaction():
            claimed = jobs.claim_target(self.db, job, target)
        assert not claimed or self.live.get(job.id) == (job.lease, node)

    # What must hold at any moment.

    @invariant()
    def counters_equal_the_jobs(self) -> None:
        self.house.check_counters()

    @invariant()
    def taken_jobs_are_those_with_a_living_lease(self) -> None:
        taken = self.db.all("SELECT id, lease, node FROM jobs WHERE state = 'TAKEN'")
        assert {id_: (lease, node) for id_, lease, node in taken} == self.live

    @invariant()
    def no_host_has_more_than_it_bears(self) -> None:
        over = "SELECT h.key FROM hosts h WHERE (SELECT sum(taken) FROM sequences WHERE host = h.id) > h.concurrency"
        assert self.db.all(over) == []

    @invariant()
    def no_page_is_fetched_twice_at_once(self) -> None:
        twice = "SELECT 1 FROM jobs WHERE state = 'TAKEN' GROUP BY coalesce(target, url) HAVING count(*) > 1"
        assert self.db.all(twice) == []

    @invariant()
    def rows_are_those_of_accepted_results(self) -> None:
        assert self.house.rows() == self.truth
        kept = self.db.one("SELECT rows, rejected FROM row_counts") or (0, 0)
        assert kept == (len(self.truth), self.rejected)

    @invariant()
    def a_job_is_finished_once(self) -> None:
        assert not [job for job, times in self.finished.items() if times > 1]
        done = {row[0] for row in self.db.all("SELECT id FROM jobs WHERE state IN ('DONE','FAILED','SKIPPED')")}
        assert done == set(self.finished)

    @invariant()
    def every_page_asked_for_has_its_job(self) -> None:
        assert set(self.db.all("SELECT DISTINCT s.grp, j.url FROM jobs j JOIN sequences s ON s.id = j.sequence"
                               " WHERE j.hops = 0 AND s.kind = 'page'")) <= self.wanted  # fmt: skip
        known = {row[0] for row in self.db.all("SELECT identity FROM jobs UNION SELECT page_key FROM jobs")}
        assert {link_key(group, url) for group, url in self.wanted} <= known

    @invariant()
    def a_sequence_has_one_ring_outstanding_at_most(self) -> None:
        assert all(count == 1 for count in self.bells.values())
        assert self.house.rung() == set(self.bells) | self.lost
        assert not set(self.bells) & self.lost

    # How it is done.

    def _lease(self, node: int, sequence: int, free: int, batch: int) -> None:
        del self.bells[sequence]
        standing = self.house.counted()[sequence]
        active = sum(c["ready"] + c["taken"] > 0 for c in self.house.counted().values())
        slots = SLOTS * len(self.alive)
        others = self.house.rung() - {sequence}
        got = self.house.lease(sequence, node=node, free=free, batch=batch)
        running = standing["taken"]
        bound = quota(active, slots)
        fair = bound if active <= 1 else max(1, int(0.9 * bound))
        assert len(got.jobs) <= min(free, batch)
        assert len(got.jobs) <= max(0, (fair if others else slots) - running)
        for job in got.jobs:
            assert job.id not in self.live
            self.live[job.id] = (job.lease, node)
            self.results.append((node, job))
            if job.delay:
                assert job.send_at is not None
                assert job.send_at >= max(self.house.now, self.sent.get(job.host, 0.0) + job.delay) - 1e-6
                self.sent[job.host] = job.send_at
        if got.ring:
            assert got.jobs
            self._ring([sequence])

    def _result(self, job: LeasedJob, outcome: str, links: list[Page]) -> Finished:
        if job.kind is JobKind.ROBOTS:
            return Finished(job=job, state=JobState.DONE, attempts=1, robots=Robots(404, "", 0.0))
        later = self.house.now + 0.7
        match outcome:
            case "failed":
                return failed(job)
            case "skipped":
                return Finished(job=job, state=JobState.SKIPPED, reason="gone")
            case "retry":
                return again(job)
            case "later":
                return again(job, later)
            case "moved" if links:
                return moved(job, links[0].url)
            case "cut":
                return Finished(job=job, state=JobState.INCOMPLETE, reason="cut off")
            case "backoff":
                return Finished(job=job, state=JobState.READY, not_before=later, backoff_until=later)
        words = [f'"{next(self.words)}"' for _ in range(job.id % 3)]
        return self.house.done(job, data=words, links=links, rejected=(("book", 1),))

    def _commit_all(self, node: int, links: list[Page]) -> None:
        latest = {job.id: job for epoch, job in self.results if epoch == node}
        if latest:
            self._commit(node, [self._result(job, "done", links) for job in latest.values()], keep=False)

    def _commit(self, node: int, group: list[Finished], keep: bool) -> None:
        expected = {f.job.id for f in group if self.live.get(f.job.id) == (f.job.lease, node)}
        if node in self.dead:
            before = self._standing()
            with pytest.raises(Fenced):
                self.house.commit(*group, node=node)
            assert self._standing() == before
            return
        told = self.house.commit(*group, node=node)
        assert told.won == expected
        for f in (f for f in group if f.job.id in expected):
            del self.live[f.job.id]
            if f.state in (JobState.DONE, JobState.FAILED, JobState.SKIPPED):
                self.finished[f.job.id] += 1
            self.truth += [(f.job.id, row.data) for row in f.rows]
            self.rejected += sum(count for _, count in f.rejected)
            self.wanted |= {(c.group, c.url) for c in f.children}
        if not keep:
            ids = {f.job.id for f in group}
            self.results = [(n, j) for n, j in self.results if n != node or j.id not in ids]
        self._ring(told.ring)

    def _release(self, node: int, *, crashed: bool) -> None:
        with self.db.transaction():
            freed = jobs.release(self.db, node, "died", crashed=crashed)
            sequences.recount_taken(self.db, self.house.run)
            rung = sequences.ring_all(self.db, self.house.run, self.house.now)
        mine = [job for job, (_, holder) in self.live.items() if holder == node]
        assert freed == len(mine)
        for job in mine:
            del self.live[job]
        self._ring(rung)

    def _bury(self, node: int, crashed: bool) -> None:
        with self.db.transaction():
            assert nodes.move(self.db, node, NodeState.DEAD)
            nodes.set_heart(self.db, node, Heart.ASYSTOLE)
            nodes.set_role(self.db, node, Role.DEAD_RUNNER)
            if (backup := nodes.first_backup(self.db, self.house.run)) is not None:
                assert backup[0] == self.backups[0]
                assert nodes.set_role(self.db, backup[0], Role.RUNNER)
                self.alive.append(self.backups.pop(0))
        self.alive.remove(node)
        self.dead.append(node)
        self._release(node, crashed=crashed)
        self._resize()

    def _resize(self) -> None:
        with self.db.transaction():
            assert nodes.runners(self.db, self.house.run) == len(self.alive)
            runs.set_slots(self.db, self.house.run, SLOTS * len(self.alive))

    def _ring(self, listed: Iterable[int]) -> None:
        self.bells.update(listed)

    def _standing(self) -> list[Any]:
        tables = ("jobs", "sequences", "hosts", "rows", "row_counts", "runs")
        return [self.db.all(f"SELECT * FROM {table}") for table in tables]

    def _crawl_to_the_end(self) -> None:
        """Whatever happened: one last node brings every page to its end."""
        for node in list(self.alive):
            self._bury(node, crashed=True)
        for node in list(self.alive):
            self._bury(node, crashed=True)
        self.alive.append(self.house.node())
        self._resize()
        self.pause(False, 0)
        for _ in range(400):
            self.house.now += 0.5
            self.resume()
            self.repair()
            while self.bells:
                self._lease(self.alive[-1], min(self.bells), 8, 8)
            self._commit_all(self.alive[-1], [])
            if not jobs.any_open(self.db, self.house.run):
                break
        assert not jobs.any_open(self.db, self.house.run)
        for check in (
            self.counters_equal_the_jobs, self.rows_are_those_of_accepted_results, self.a_job_is_finished_once,
            self.every_page_asked_for_has_its_job, self.a_sequence_has_one_ring_outstanding_at_most,
        ):  # fmt: skip
            check()
        assert {row[0] for row in self.db.all("SELECT state FROM jobs")} <= {"DONE", "FAILED", "SKIPPED"}


def _run(prepared: Path, examples: int, steps: int) -> None:
    machine = type("Crawling", (Crawl,), {"prepared": prepared})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_no_order_of_events_loses_doubles_or_miscounts(prepared: Path) -> None:
    _run(prepared, examples=50, steps=50)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_no_order_of_events_loses_doubles_or_miscounts_in_a_long_sweep(prepared: Path) -> None:
    _run(prepared, examples=3000, steps=80)
