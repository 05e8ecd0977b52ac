"""Rows that wait for files, when pages and files are committed, retried and taken over in any order."""

import random
from typing import Any

import orjson
import pytest

from crawl_console.filter_syntax import parse
from crawl_engine.model.job import JobKind
from crawl_engine.model.node import Role
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.transactions.retry import retry
from tests.contract.store.filed import check, downloaded, held_row, named, page, stored, take_files, waiting
from tests.contract.store.harness import StoreHarness, again, failed


@pytest.mark.parametrize("seed", range(12))
def test_commits_in_any_order_write_each_row_once(store: StoreHarness, seed: int) -> None:
    """Pages and files in random batches, with retries, deaths of the node and taken back pages in between."""
    rng = random.Random(seed)
    names = [f"http://f/{i}" for i in range(12)]
    rows = {
        f"http://a/{i}": [
            held_row(f"{i}.{j}", rng.choice([*names, None]), *rng.sample(names, rng.randint(0, 2))) for j in range(4)
        ]
        for i in range(8)
    }
    store.seed(*rows)
    broken = set(rng.sample(names, 3))
    for _ in range(400):
        taken = [*store.take("http://a/", free=rng.randint(1, 4)), *take_files(store).values()]
        rng.shuffle(taken)
        outcomes = [outcome_of(store, job, rows, broken, rng) for job in taken]
        cut = rng.randint(0, len(outcomes))
        for part in (outcomes[:cut], outcomes[cut:]):
            if part:
                store.commit(*part)
        if rng.random() < 0.2:
            retry(store.db, store.run, parse(f"state:done kind:page http://a/{rng.randint(0, 7)}$"))
        if rng.random() < 0.1:
            store.nodes[0] = store.node(Role.RUNNER)
        check(store)
        if not jobs.has_open_jobs(store.db, store.run):
            break
    assert not jobs.has_open_jobs(store.db, store.run)
    expected = sorted(row_text(row, broken) for listed in rows.values() for row in listed)
    assert sorted(row_text(data, ()) for _, data in store.rows()) == expected
    assert not waiting(store)


def outcome_of(store: StoreHarness, job: Any, rows: Any, broken: set[str], rng: random.Random) -> JobOutcome:
    if rng.random() < 0.2:
        return again(job)
    if job.kind is JobKind.FILE:
        return failed(job) if job.url in broken else downloaded(store, job)
    waits = [row for row in rows[job.url] if named(row)]
    return page(store, job, *waits, data=[row for row in rows[job.url] if not named(row)])


def row_text(text: str, broken: Any) -> str:
    """A row with the path of each file in its place; null where it failed."""

    def value(item: Any) -> Any:
        if isinstance(item, str):
            return None if item in broken else stored(item).path
        return item["path"] if isinstance(item, dict) else item

    row = orjson.loads(text)
    return orjson.dumps([row["title"], value(row["file"]), [value(item) for item in row["more"]]]).decode()
