"""Each effect of an outcome alone: its writer changes the tables that it owns, and no other."""

from collections.abc import Iterator

import orjson
import pytest

from crawl_engine.model.file import StoredFile
from crawl_engine.model.job import JobState, LeasedJob
from crawl_engine.model.record import PageWarning, RecordCounts
from crawl_engine.model.step import StepResult
from crawl_engine.store.db.connector import Database
from crawl_engine.store.pages.documents import CheckedDocument, NewDocument
from crawl_engine.store.pages.temporary import DocumentUse
from crawl_engine.store.tables.host.cookie_jars import CookiesChanged, StoredJar, put
from crawl_engine.store.tables.host.hosts import Backoff, HostAddress, HostFailure
from crawl_engine.store.tables.job.jobs import AskedAgain
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.job.results import UnitResult
from crawl_engine.store.tables.job.step_values import PluginRun
from crawl_engine.store.tables.outcome import AttemptStats, Commit, Effect, JobOutcome
from crawl_engine.store.tables.row.files import DownloadedFile
from crawl_engine.store.tables.row.health import NewWarnings, PageCounts
from crawl_engine.store.tables.row.held_rows import HeldRows
from crawl_engine.store.tables.row.rows import NewRows, RejectedRecords
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.tables.run.landings import Landed
from crawl_engine.store.tables.run.page_repeats import PageSeen
from crawl_engine.store.transactions import effects
from crawl_engine.store.transactions.logins import LoginNews
from crawl_engine.store.transactions.release import EndedFile
from crawl_engine.store.transactions.robots import RobotsResult, RobotsWanted
from crawl_engine.store.transactions.statistics import ContentChange
from crawl_engine.store.transactions.supersede import FailedSteps, OldRows, Outdated
from tests.contract.store.filed import file_child
from tests.contract.store.harness import Page, StoreHarness, child, document, table_names
from tests.unit.node.leased_jobs import change

PLACES = orjson.dumps([[["file"], 0]]).decode()
KEY = file_child("http://f/1").identity


class Jar:
    def write(self, db: Database, run: int) -> None:
        put(db, run, "a.example", StoredJar(b"{}", 1))


def effect(made: Effect, *tables: str) -> object:
    return pytest.param(made, set(tables), id=type(made).__name__)


CASES = [
    effect(document("http://a/1"), "documents"),
    effect(CheckedDocument(7, 5.0, earlier_keys=(b"k",)), "document_aliases"),
    effect(DocumentUse(keeps=True)),
    effect(OldRows(), "runs"),
    effect(NewRows("book", 1, ("{}",)), "rows", "row_counts"),
    effect(ContentChange((None,)), "content_sums"),
    effect(RejectedRecords("book", 2), "rejections", "row_counts", "counters"),
    effect(PageCounts(1, RecordCounts(2, 1, (("title", 1),))), "health", "field_health", "page_health", "host_health"),
    effect(NewWarnings(((1, PageWarning("book", "price", "digits-left", "x")),)), "page_warnings"),
    effect(UnitResult(1, "g", StepResult("t", "s", "ok", "", 1.0, "")), "results", "result_counts"),
    effect(PluginRun({"k": "1"}), "step_values"),
    effect(FailedSteps()),
    effect(Outdated(), "jobs", "sequences"),
    effect(Children((child(Page("http://a/2")),)), "jobs", "sequences", "runs"),
    effect(PageSeen(7), "page_repeats"),
    effect(AskedAgain(), "jobs"),
    effect(Landed(b"k", b"p"), "landings"),
    effect(DownloadedFile(StoredFile("files/x", 1, "x", "")), "files"),
    effect(HeldRows("book", 1, ("{}",), (PLACES,), KEY), "rows", "row_counts", "content_sums"),
    effect(EndedFile()),
    effect(Backoff(1030.0, throttled=True, strike=True), "hosts"),
    effect(RobotsWanted()),
    effect(HostFailure(), "hosts"),
    effect(HostAddress("203.0.113.7"), "hosts"),
    effect(RobotsResult(200, "", 1.0, "us", 1.0), "hosts"),
    effect(LoginNews("pause"), "hosts", "session_losses", "events"),
    effect(CookiesChanged(Jar()), "cookie_jars"),
    effect(AttemptStats(1, 1, 0.5, 9, ((200, 0.5),)), "metrics", "host_answers"),
    effect(Event(1.0, "INFO", "n1", "page", "x"), "events"),
]


@pytest.fixture
def job(store: StoreHarness) -> LeasedJob:
    """A page that is done, with the number of the login in force at its host."""
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    store.commit(store.done(job))
    store.db.execute("UPDATE hosts SET login = 'DONE', login_number = 1")
    return change(job, login_number=1)


def contents(db: Database) -> dict[str, list[tuple[object, ...]]]:
    return {name: sorted(db.all(f"SELECT * FROM {name}"), key=repr) for name in table_names(db)}


@pytest.mark.parametrize(("made", "tables"), CASES)
def test_an_effect_changes_the_tables_of_its_writer(
    store: StoreHarness, job: LeasedJob, made: Effect, tables: set[str]
) -> None:
    page = 1 if isinstance(made, NewDocument | ContentChange) else None
    outcome = JobOutcome(job=job, state=JobState.DONE, page=page)
    before = contents(store.db)
    with store.db.transaction():
        commit = Commit(store.db, store.run, store.now, store.places)
        if isinstance(made, AttemptStats):
            outcome.stats = made
        effects.write(commit, [outcome] if isinstance(made, AttemptStats) else [outcome.add(made)], ())
    after = contents(store.db)
    assert {name for name in after if after[name] != before[name]} == tables


def test_each_type_of_effect_has_one_writer_and_a_test() -> None:
    def kinds(of: type[Effect]) -> Iterator[type[Effect]]:
        for kind in of.__subclasses__():
            yield from kinds(kind)
            if kind.__subclasses__() == []:
                yield kind

    known = [kind for kind in kinds(Effect) if kind.__module__.startswith("crawl_engine.")]
    assert set(known) == set(effects.WRITERS)
    assert {type(case.values[0]) for case in CASES} == set(known)  # type: ignore[attr-defined]


def test_the_effects_of_a_lost_lease_are_not_written(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    before = contents(store.db)
    lost = [JobOutcome(job=job._replace(lease=1), state=JobState.DONE, effects=(case.values[0],)) for case in CASES]  # type: ignore[attr-defined]
    for outcome in lost:
        assert not store.commit(outcome).accepted_ids
    assert contents(store.db) == before


def test_an_effect_without_a_writer_fails_its_job_alone(store: StoreHarness) -> None:
    class Unknown(Effect):
        pass

    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(store.done(one, Unknown()), store.done(two))
    assert [store.state(job.id) for job in (one, two)] == ["FAILED", "DONE"]
