"""A store whose pages name files: rows to hold, outcomes of downloads, and what the tables must agree on."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from crawl_engine import urls
from crawl_engine.model.file import StoredFile, number_urls
from crawl_engine.model.job import JobKind, JobState, LeasedJob, file_key
from crawl_engine.store.tables.job.linked_jobs import ChildJob, Children
from crawl_engine.store.tables.outcome import Effect, JobOutcome
from crawl_engine.store.tables.row.files import DownloadedFile
from crawl_engine.store.tables.row.held_rows import HeldRows
from tests.contract.store.harness import StoreHarness, sent

PATHS = (("file",), ("more",))


def held_row(title: str, file: str | None, *more: str) -> str:
    return orjson.dumps({"title": title, "file": file, "more": list(more)}).decode()


def held_rows(data_def: str, data_def_id: int, rows: Iterable[str]) -> HeldRows:
    """Rows that wait for all files they name."""
    named = list[str]()

    def number_of(url: str) -> int:
        named.append(url)
        return len(named) - 1

    numbered = [number_urls(row, PATHS, number_of) for row in rows]
    places = tuple(orjson.dumps(places).decode() for _, places in numbered)
    return HeldRows(
        data_def, data_def_id, tuple(row for row, _ in numbered), places, b"".join(file_key(url) for url in named)
    )


def named(*rows: str) -> list[str]:
    found = list[str]()
    for row in rows:
        number_urls(row, PATHS, lambda url: found.append(url))
    return found


def file_child(url: str, group: str = "g") -> ChildJob:
    return ChildJob(
        group, urls.host_key(url), urls.origin(url), url, 0, 0, file_key(url), JobKind.FILE, may_leave_host=True
    )


def page(
    store: StoreHarness, job: LeasedJob, *rows: str, data: Iterable[str] = (), effects: Iterable[Effect] = (),
    **more: Any,
) -> JobOutcome:  # fmt: skip
    """A page with rows that wait, and others."""
    held = (held_rows("book", store.book, rows),) if rows else ()
    children = Children(tuple({url: file_child(url) for url in named(*rows)}.values()))
    return store.done(job, *held, children, *effects, data=data, **more)


def stored(url: str) -> StoredFile:
    digest = hashlib.sha256(url.encode()).hexdigest()
    return StoredFile(f"files/{digest}.pdf", len(url), digest, "application/pdf")


def take_files(store: StoreHarness, group: str = "g") -> dict[str, LeasedJob]:
    """Lease all files of host `f`."""
    sequence = store.place("http://f/", group, JobKind.FILE).sequence
    return {job.url.rpartition("/")[2]: job for job in store.lease(sequence).jobs}


def downloaded(store: StoreHarness, job: LeasedJob) -> JobOutcome:
    return JobOutcome(
        job=job, state=JobState.DONE, attempts=1, stats=sent(), effects=(DownloadedFile(stored(job.url)),)
    )


def values(store: StoreHarness) -> list[Any]:
    return [orjson.loads(data) for _, data in store.rows()]


def waiting(store: StoreHarness) -> list[str]:
    return [orjson.loads(data)["title"] for (data,) in store.db.all("SELECT data FROM held_rows ORDER BY id")]


def check(store: StoreHarness) -> None:
    """Counters and sums are exact, and no row is in both tables or waits for a file that has ended."""
    store.check_counters()
    store.check_sums()
    counts = store.db.one("SELECT total(rows), total(waiting) FROM row_counts")
    assert counts == store.db.one("SELECT (SELECT count(*) FROM rows), (SELECT count(*) FROM held_rows)")
    assert not store.db.all("SELECT 1 FROM held_files WHERE held NOT IN (SELECT id FROM held_rows)")
    open_files = """SELECT f.held FROM held_files f JOIN jobs j ON j.id = f.file
        WHERE j.state IN ('READY', 'TAKEN', 'INCOMPLETE')"""
    assert not store.db.all(f"SELECT 1 FROM held_rows WHERE id NOT IN ({open_files})")


def urls_of(*names: str) -> Sequence[str]:
    return [f"http://f/{name}" for name in names]
