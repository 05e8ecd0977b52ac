"""A node's single writes wait for a busy database, or leave the job where it is."""

import asyncio
from collections.abc import Callable

import pytest

from crawl_engine.node import db_access
from crawl_engine.node.db_access import DbAccess
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.run import page_limits
from tests.contract.store.harness import StoreHarness


def test_a_reservation_waits_for_a_busy_database_and_a_claim_does_not(
    new_store: Callable[..., StoreHarness], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(max_pages={"g": 2})
    store.seed("http://a/1")
    (job,) = store.lease(1).jobs
    access = DbAccess(store.folder)
    other = connect(store.folder / CRAWL)
    monkeypatch.setattr(db_access, "_BUSY_SECONDS", 0.05)
    monkeypatch.setattr(db_access, "_BUSY_PAUSE", 0.01)

    async def work() -> None:
        with other.transaction():
            assert not await access.claim_target(job, "http://a/2")
            reserving = asyncio.create_task(access.reserve_request(job))
            await asyncio.sleep(0.4)
            assert not reserving.done()
        assert await reserving
        assert not await access.reserve_request(job), "the limit is reached"

    asyncio.run(work())
    assert [room.requests for room in page_limits.list_rooms(store.db, store.run)] == [2]
    other.close()
