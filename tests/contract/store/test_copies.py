"""Rows are copied in the commit of a job, from a source that is decided there."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from engine.model.job import JobState, LeasedJob, StoredPage
from engine.model.record import RecordCounts
from engine.store.db.filter import GlobFilter, JobFilter
from engine.store.tables import outputs, row_sources, rows
from engine.store.transactions.commit import commit
from engine.store.transactions.outcome import CopiedRows, ExtractedRows, JobOutcome, PageCounts
from engine.store.transactions.retry import retry, retry_jobs
from tests.contract.store.harness import StoreHarness, document
from tests.contract.store.shop import Shop, defs

PAGE = 1


@pytest.fixture
def crawl(store: StoreHarness) -> "Iterator[Crawl]":
    yield Crawl(store)
    store.check_sums()


class Crawl:
    """A page that job `source` fetched, with two rows of `book`; further jobs use its document."""

    def __init__(self, store: StoreHarness) -> None:
        self.store = store
        store.seed("http://a/1")
        (job,) = store.take("http://a/1")
        self.source = job
        assert store.commit(self.made(job, document=document("http://a/1"))).accepted_ids

    def made(self, job: LeasedJob, *texts: str, **more: Any) -> JobOutcome:
        """The outcome of an extraction of the page."""
        texts = texts or ('{"title":"x"}', '{"title":null}')
        counts = PageCounts(self.store.book, RecordCounts(len(texts), 0, (("title", 1),)), frozenset())
        return replace(
            self.store.done(job, page=PAGE, **more), rows=(ExtractedRows("book", self.store.book, texts),),
            counts=(counts,), reusable=(self.store.book,),
        )  # fmt: skip

    def copying(self, job: LeasedJob, **more: Any) -> JobOutcome:
        return self.store.done(
            job, page=PAGE, copies=(CopiedRows("book", self.store.book, ("title",), frozenset()),), **more
        )

    def take(self, path: str, group: str = "g") -> LeasedJob:
        self.store.seed(f"http://a/{path}", group=group)
        (job,) = self.store.take(f"http://a/{path}", group=group)
        return job

    def sources(self) -> dict[tuple[int, int], row_sources.RowSource]:
        return row_sources.find(self.store.db, [(PAGE, self.store.book)])

    def health(self) -> list[tuple[Any, ...]]:
        return self.store.db.all("SELECT pages, records, rejected FROM health") + self.store.db.all(
            "SELECT field, missing FROM field_health"
        )


def test_rows_are_copied_with_new_ids_and_counted(crawl: Crawl) -> None:
    store = crawl.store
    job = crawl.take("2")
    assert store.commit(crawl.copying(job)).accepted_ids == {job.id}
    texts = ['{"title":"x"}', '{"title":null}']
    assert store.rows() == [(crawl.source.id, text) for text in texts] + [(job.id, text) for text in texts]
    assert rows.counts(store.db, store.run) == {"book": (4, 0)}
    assert crawl.health() == [(2, 4, 0), ("title", 2)]
    assert store.db.value("SELECT records FROM hosts WHERE id = ?", (job.host,)) == 4
    assert store.db.one("SELECT state, document FROM jobs WHERE id = ?", (job.id,)) == ("DONE", PAGE)
    store.check_counters()


def test_a_large_row_stays_one(crawl: Crawl) -> None:
    store = crawl.store
    long = memoryview(b'{"title":"' + b"x" * 100_000 + b'"}')
    job = crawl.take("2")
    made = crawl.made(job)
    made.rows = (ExtractedRows("book", store.book, (long,)),)  # type: ignore[arg-type]  # as an extraction process sends it
    store.commit(made)
    assert crawl.sources()[PAGE, store.book].job == job.id, "the newest source counts"
    copy = crawl.take("3")
    store.commit(crawl.copying(copy))
    [(text,)] = store.db.all("SELECT CAST(data AS TEXT) FROM rows WHERE job = ?", (copy.id,))
    assert text.encode() == bytes(long)


def test_without_a_valid_lease_nothing_is_copied(crawl: Crawl) -> None:
    store = crawl.store
    job = crawl.take("2")
    assert store.commit(crawl.copying(job._replace(lease=1))).accepted_ids == frozenset()
    assert len(store.rows()) == 2
    assert crawl.health()[0] == (1, 2, 0)


def test_a_source_that_is_retried_meanwhile_gives_the_job_back(crawl: Crawl) -> None:
    store = crawl.store
    job = crawl.take("2")
    retry(store.db, store.run, JobFilter(states=GlobFilter(("done",))))
    assert crawl.sources() == {}
    result = store.commit(crawl.copying(job))
    assert result.accepted_ids == {job.id}
    assert job.sequence in result.ring
    assert store.db.one("SELECT state, document, attempts FROM jobs WHERE id = ?", (job.id,)) == ("READY", None, 0)
    assert store.rows() == []
    store.check_counters()
    taken = {one.id: one for one in store.take("http://a/2")}
    store.commit(crawl.made(taken[job.id]))
    assert [row[0] for row in store.rows()] == [job.id, job.id], "the page was extracted"
    assert crawl.sources()[PAGE, store.book].job == job.id


def test_a_retried_copy_loses_its_rows_and_its_source_keeps_them(crawl: Crawl) -> None:
    store = crawl.store
    job = crawl.take("2")
    with store.db.transaction():
        outputs.ensure(store.db, store.run, appender="a", type_="csv", data_def="book", path="b", settings={})
        (output,) = outputs.list_outputs(store.db, store.run)
        outputs.advance(store.db, output.id, cursor=4, size=0, rows=4, inode=1)
    store.commit(crawl.copying(job))
    retry_jobs(store.db, store.run, [job.id])
    assert [row[0] for row in store.rows()] == [crawl.source.id] * 2
    assert rows.counts(store.db, store.run) == {"book": (2, 0)}
    assert crawl.health() == [(1, 2, 0), ("title", 1)]
    assert [o.dirty for o in outputs.list_outputs(store.db, store.run)] == [True]
    store.commit(crawl.copying(store.take("http://a/2")[0]))
    assert rows.counts(store.db, store.run) == {"book": (4, 0)}


def test_only_pages_with_their_rows_are_sources(crawl: Crawl) -> None:
    store = crawl.store
    assert crawl.sources()[PAGE, store.book] == (crawl.source.id, 2, '{"title":1}')
    assert row_sources.find(store.db, [(PAGE, store.book + 1), (PAGE + 1, store.book)]) == {}
    store.db.execute("UPDATE page_health SET rejected = 1")
    assert crawl.sources() == {}
    store.db.execute("UPDATE page_health SET rejected = 0")
    store.db.execute("UPDATE jobs SET document = 7")
    assert crawl.sources() == {}
    store.db.execute("UPDATE jobs SET document = ?", (PAGE,))


def test_no_statement_is_added_where_nothing_persists(crawl: Crawl) -> None:
    store = crawl.store
    job = crawl.take("2")
    plain = crawl.made(job)
    plain.reusable = ()
    statements = [sql for sql, _ in store.plans(lambda: store.commit(plain))]
    assert not [sql for sql in statements if "row_sources" in sql]


def test_the_statements_read_by_index(crawl: Crawl) -> None:
    store = crawl.store
    job = crawl.take("2")
    for sql, plan in store.plans(lambda: store.commit(crawl.copying(job))):
        if "row_sources" in sql or "INSERT INTO rows" in sql:
            assert not [line for line in plan if line.startswith("SCAN") and "c VIRTUAL" not in line], (sql, plan)


class Copies:
    """A shop whose page of `book` and `shelf` may be copied."""

    def __init__(self, store: StoreHarness) -> None:
        self.store, self.shop = store, Shop(store)
        (self.source,) = self.shop.done
        self.page = self.shop.page
        self.record(self.source)

    def record(self, job: int) -> None:
        with self.store.db.transaction():
            for data_def in self.shop.ids.values():
                self.store.db.execute("INSERT INTO page_health VALUES (?, ?, 1, 0, NULL)", (job, data_def))
                row_sources.add(self.store.db, [(self.page, data_def, job)])

    def copying(self, job: LeasedJob) -> JobOutcome:
        copies = tuple(CopiedRows(name, id_) for name, id_ in self.shop.ids.items())
        return self.store.done(job, page=self.page, copies=copies)


def test_rows_of_a_copy_are_re_extracted_like_any_others(store: StoreHarness) -> None:
    copies = Copies(store)
    store.seed("http://a/x")
    (job,) = store.take("http://a/x")
    version = job.defs_version
    store.commit(copies.copying(job))
    assert copies.shop.row_versions()[2:] == [(job.id, "book", version), (job.id, "shelf", version)]
    edited = copies.shop.publish(defs("title", "price"))
    copies.shop.queue()
    leased = copies.shop.lease().jobs
    assert {one.page_job for one in leased} == {copies.source, job.id}
    assert {one.stored.page for one in leased if isinstance(one.stored, StoredPage)} == {copies.page}
    store.commit(*map(copies.shop.extracted, leased))
    assert sorted(copies.shop.row_versions()) == sorted(
        (page, name, number)
        for page in (copies.source, job.id)
        for name, number in (("shelf", version), ("book", edited))
    )
    assert rows.counts(store.db, store.run) == {"book": (2, 0), "shelf": (2, 0)}


def test_a_re_extraction_in_the_same_commit_does_not_empty_a_copy(store: StoreHarness) -> None:
    copies = Copies(store)
    store.seed("http://a/x")
    (job,) = store.take("http://a/x")
    copying = copies.copying(job)
    copies.shop.publish(defs("title", "price"))
    copies.shop.queue()
    (extract,) = copies.shop.lease().jobs
    store.commit(copies.shop.extracted(extract), copying)
    made = [row for row in copies.shop.row_versions() if row[0] == job.id]
    assert made == [(job.id, "book", job.defs_version), (job.id, "shelf", job.defs_version)]
    assert (job.id, "READY") in copies.shop.extractions(), "it is stale, and re-extracted next"


def test_a_copy_that_is_given_back_is_not_re_extracted(store: StoreHarness) -> None:
    copies = Copies(store)
    store.seed("http://a/x")
    (job,) = store.take("http://a/x")
    copying = copies.copying(job)
    copies.shop.publish(defs("title", "price"))
    copies.shop.queue()
    (extract,) = copies.shop.lease().jobs
    store.commit(copies.shop.extracted(extract))
    commit(store.db, store.nodes[0], store.run, [copying], store.places, store.now)
    assert (copying.state, store.state(job.id)) == (JobState.READY, "READY")
    assert copies.shop.extractions() == []
    assert [row for row in store.rows() if row[0] == job.id] == []


def test_copies_of_rows_without_a_digest_get_one(crawl: Crawl) -> None:
    crawl.store.db.execute("UPDATE rows SET digest = NULL")
    copied = crawl.take("2")
    assert crawl.store.commit(crawl.copying(copied)).accepted_ids
    [(without,)] = crawl.store.db.all("SELECT count(*) FROM rows WHERE digest IS NULL")
    assert without == 2
    crawl.store.db.execute(
        "UPDATE rows SET digest = (SELECT c.digest FROM rows c WHERE c.data = rows.data AND c.digest IS NOT NULL)"
    )
