"""Seeding, leasing, committing, crashes and restarts in any order: nothing is lost, doubled or miscounted."""

import contextlib
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from crawl_engine.errors import Fenced
from crawl_engine.model.node import Role
from crawl_engine.store.db.connector import Database, DatabaseBusy, connect
from crawl_engine.store.db.location import read_location
from crawl_engine.store.db.postgres import PostgresDatabase
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.job import jobs, rings, sequences
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run import runs
from crawl_engine.store.transactions.lease import Lease, lease
from tests.contract.store.harness import Page
from tests.contract.store.model import HOSTS, Model

pages = st.builds(
    lambda host, number, group: Page(f"http://{host}/{number}", group),
    st.sampled_from([key[0] for key in HOSTS]),
    st.integers(0, 9),
    st.sampled_from(["g", "h"]),
)
outcomes = st.sampled_from(["done", "done", "done", "failed", "skipped", "retry", "later", "moved", "cut", "backoff"])


class Crawl(Model):
    """What may happen, in any order."""

    def teardown(self) -> None:
        try:
            self._crawl_to_the_end()
        finally:
            self.store.close()
            shutil.rmtree(self.folder)

    # What a supervisor does.

    @rule(listed=st.lists(pages, min_size=1, max_size=6), name=st.sampled_from("xy"), priority=st.integers(-1, 1))
    def seed(self, listed: list[Page], name: str, priority: int) -> None:
        for group in ("g", "h"):
            if chosen := [page.url for page in listed if page.group == group]:
                self.ring(self.store.seed(*chosen, group=group, name=name, priority=priority))
        self.expected_pages |= {(page.group, page.url) for page in listed}

    @precondition(lambda self: len(self.alive) + len(self.backups) < 4)
    @rule(backup=st.booleans())
    def start_node(self, backup: bool) -> None:
        if backup:
            self.backups.append(self.store.node(Role.BACKUP_RUNNER))
        else:
            self.alive.append(self.store.node())
        self.resize()

    @precondition(lambda self: self.alive and self.live)
    @rule(which=st.integers(0, 3), crashed=st.booleans(), late=st.booleans())
    def node_dies(self, which: int, crashed: bool, late: bool) -> None:
        node = self.alive[which % len(self.alive)]
        self.mark_dead(node, crashed)
        if late:
            self.commit_all(node, [])

    @precondition(lambda self: self.alive and self.live)
    @rule(which=st.integers(0, 3), late=st.booleans())
    def jobs_of_a_live_node_are_released(self, which: int, late: bool) -> None:
        """A supervisor does not do this: only the lease fences later results of the node."""
        node = self.alive[which % len(self.alive)]
        self.release(node, crashed=True)
        if late:
            self.commit_all(node, [])

    @rule()
    def repair(self) -> None:
        now = self.store.now
        with self.db.transaction():
            jobs.promote(self.db, self.store.run, now)
            rung = rings.ring_all(self.db, self.store.run, now)
            is_lost = not self.doorbell and rings.has_waited(self.db, self.store.run, now + 1)
        assert not is_lost or self.lost or rung
        self.lost = False
        self.doorbell |= bool(rung) or is_lost

    @rule()
    def recount(self) -> None:
        before = self.all_tables()
        with self.db.transaction():
            sequences.recount(self.db, self.store.run)
            sequences.recount_taken(self.db, self.store.run)
            runs.recount(self.db, self.store.run)
        assert self.all_tables() == before

    @rule()
    def resume(self) -> None:
        with self.db.transaction():
            jobs.resume_incomplete(self.db, self.store.run)

    @rule(paused=st.booleans(), which=st.integers(0, 8))
    def pause(self, paused: bool, which: int) -> None:
        with self.db.transaction():
            for sequence in [which] if which else range(1, 9):
                sequences.pause(self.db, self.store.run, str(sequence), paused)

    @rule(seconds=st.sampled_from([0.05, 0.3, 1.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.store.now += seconds

    @precondition(lambda self: self.doorbell)
    @rule()
    def lose_the_doorbell(self) -> None:
        self.doorbell, self.lost = False, True

    # What nodes do.

    @precondition(lambda self: self.alive and self.doorbell)
    @rule(which=st.integers(0, 3), free=st.integers(1, 8), batch=st.integers(1, 8))
    def answer_the_doorbell(self, which: int, free: int, batch: int) -> None:
        self.lease(self.alive[which % len(self.alive)], free, batch)

    @precondition(lambda self: self.dead)
    @rule(which=st.integers(0, 3))
    def a_dead_node_leases(self, which: int) -> None:
        before = self.all_tables()
        with pytest.raises(Fenced):
            self.store.lease(1, node=self.dead[which % len(self.dead)])
        assert self.all_tables() == before

    @precondition(lambda self: self.results)
    @rule(data=st.data(), keep=st.booleans(), refill=st.booleans())
    def results_come(self, data: Any, keep: bool, refill: bool) -> None:
        """Results of one node in any order, some late; kept ones come again. New jobs may fill the slots."""
        node = data.draw(st.sampled_from(sorted({node for node, _ in self.results})))
        mine = [job for epoch, job in self.results if epoch == node]
        chosen = data.draw(st.lists(st.sampled_from(mine), min_size=1, max_size=6, unique=True))
        links = data.draw(st.lists(pages, max_size=3))
        self.commit(node, [self.result(job, data.draw(outcomes), links) for job in chosen], keep, refill=refill)

    @precondition(lambda self: self.results)
    @rule(data=st.data(), links=st.lists(pages, max_size=2))
    def every_held_job_is_done(self, data: Any, links: list[Page]) -> None:
        """All results of one node at once, including those with a lost lease."""
        node = data.draw(st.sampled_from(sorted({node for node, _ in self.results})))
        self.commit_all(node, links)

    @precondition(lambda self: self.results)
    @rule(data=st.data(), page=pages, commits=st.booleans())
    def a_page_leads_to_one_page(self, data: Any, page: Page, commits: bool) -> None:
        """It is leased before the commit of the page, which may come now, later, or never."""
        node, job = data.draw(st.sampled_from(self.results))
        self.advance(node, self.result(job, "done", [page]), commits)

    @precondition(lambda self: self.results)
    @rule(data=st.data())
    def a_job_is_redirected(self, data: Any) -> None:
        node, job = data.draw(st.sampled_from(self.results))
        target = data.draw(pages).url
        with self.db.transaction():
            claimed = jobs.claim_target(self.db, job, target)
        assert not claimed or self.live.get(job.id) == (job.lease, node)

    # What another connection does between two statements of a commit.

    def commit_beside(self, node: int, group: list[JobOutcome], at: int, other: str) -> bool:
        """Commit; before its statement number `at`, another connection works. Returns whether it did.

        Until the commit has ended, others see nothing of it and write nothing; cut off, it changes nothing.
        """
        seen: list[Any] = []
        before, leased = self.all_tables(), list[Lease]()
        leases = other == "leases"
        second = connect(self.store.folder / CRAWL, durable=False, busy_seconds=20 if leases else 0.01)
        request = self.store.lease_request(node=self.alive[0], free=4)
        leasing = threading.Thread(target=lambda: leased.extend(lease(second, self.store.run, request, self.store.now)))

        def work() -> None:
            seen.append(self.all_tables(second))
            if leases:
                leasing.start()
                time.sleep(0.005)
            elif other == "cuts" and isinstance(self.db, PostgresDatabase):
                assert self.db._held is not None
                second.value("SELECT pg_terminate_backend(?, 2000)", (self.db._held.info.backend_pid,))
            else:
                with contextlib.suppress(DatabaseBusy), second.transaction():
                    seen.append("two transactions write at once")

        try:
            with _interrupted(self.db, at, work):
                self.commit(node, group, keep=False)
        except DatabaseBusy:
            assert other == "cuts"
            assert self.all_tables() == before
            self.commit(node, group, keep=False)
        finally:
            if leasing.ident is not None:
                leasing.join()
            second.close()
        if leased:
            self.takes(request.node, [job for got in leased for job in got.jobs])
            self.doorbell = True
        assert seen in ([], [before])
        return bool(seen)

    def check_all(self) -> None:
        for check in (
            self.counters_equal_the_jobs, self.taken_jobs_are_those_with_a_valid_lease,
            self.rows_are_those_of_accepted_results, self.a_job_is_finished_once,
            self.every_expected_page_has_a_job, self.a_doorbell_waits_while_sequences_are_rung,
        ):  # fmt: skip
            check()

    def _crawl_to_the_end(self) -> None:
        """In every case one last node finishes all pages."""
        for node in list(self.alive):
            self.mark_dead(node, crashed=True)
        for node in list(self.alive):
            self.mark_dead(node, crashed=True)
        self.alive.append(self.store.node())
        self.resize()
        self.pause(False, 0)
        for _ in range(400):
            self.store.now += 0.5
            self.resume()
            self.repair()
            while self.doorbell:
                self.lease(self.alive[-1], 8, 8)
            self.commit_all(self.alive[-1], [])
            if not jobs.has_open_jobs(self.db, self.store.run):
                break
        assert not jobs.has_open_jobs(self.db, self.store.run)
        self.check_all()
        assert {row[0] for row in self.db.all("SELECT state FROM jobs")} <= {"DONE", "FAILED", "SKIPPED"}


@contextlib.contextmanager
def _interrupted(db: Database, at: int, work: Callable[[], None]) -> Iterator[None]:
    """Call `work` once, before statement number `at` of a write transaction, or before its COMMIT if that comes first.

    The statements of others, such as those of `work`, do not count.
    """
    count = 0

    def counted(run: Callable[..., Any], *, last: bool = False) -> Callable[..., Any]:
        def execute(*given: Any, **more: Any) -> Any:
            nonlocal count
            if db.in_transaction and count < at:
                count = at if last else count + 1
                if count == at:
                    work()
            return run(*given, **more)

        return execute

    with pytest.MonkeyPatch.context() as patch:
        for name in ("execute", "execute_values", "_commit"):
            patch.setattr(db, name, counted(getattr(db, name), last=name == "_commit"))
        yield


def _run(prepared: Path, settle: Callable[[Path], None], examples: int, steps: int) -> None:
    machine = type("Crawling", (Crawl,), {"prepared": prepared, "settle": staticmethod(settle)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_no_order_of_events_loses_doubles_or_miscounts(
    prepared: Path, settle: Callable[[Path], None], tmp_path: Path
) -> None:
    if read_location(tmp_path) is None:
        _run(prepared, settle, examples=50, steps=50)
    else:
        _run(prepared, settle, examples=3, steps=25)


@pytest.mark.parametrize("other", ["writes", "leases", "cuts"])
def test_a_commit_is_delayed_between_any_two_statements(
    prepared: Path, settle: Callable[[Path], None], other: str
) -> None:
    crawl = type("Crawling", (Crawl,), {"prepared": prepared, "settle": staticmethod(settle)})()
    draw = random.Random(other)
    crawl.seed([Page(f"http://{host}/{number}") for host in "abd" for number in range(4)], "x", 0)
    worked = 0
    for at in range(1, 31):
        crawl.store.now += 0.5
        crawl.repair()
        while crawl.doorbell:
            crawl.lease(draw.choice(crawl.alive), 8, 8)
        node = draw.choice(crawl.results)[0]
        mine = [job for epoch, job in crawl.results if epoch == node]
        links = [Page(f"http://{draw.choice('abd')}/{at}{number}", draw.choice("gh")) for number in range(3)]
        kinds = [draw.choice(["done", "done", "failed", "later", "moved", "backoff"]) for _ in mine]
        group = [crawl.result(job, kind, links) for job, kind in zip(mine[:4], kinds, strict=False)]
        worked += crawl.commit_beside(node, group, at, other)
        crawl.check_all()
    assert worked == 30
    crawl.teardown()


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_no_order_of_events_loses_doubles_or_miscounts_in_a_long_sweep(
    prepared: Path, settle: Callable[[Path], None]
) -> None:
    _run(prepared, settle, examples=3000, steps=80)
