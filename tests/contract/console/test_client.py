"""A data dir that cannot be written is read as immutable, unless a crawl starts meanwhile."""

import contextlib

import pytest

from console.client import open_latest_run
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.db.schema import CRAWL
from tests.contract.store.harness import StoreHarness


@pytest.fixture
def closed_store(store: StoreHarness) -> StoreHarness:
    store.seed("http://a/1")
    store.db.close()
    assert not (store.folder / f"{CRAWL}-wal").exists()
    return store


def test_a_database_at_rest_is_read_without_a_log(closed_store: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    before = sorted(closed_store.folder.iterdir())
    with open_latest_run(closed_store.folder) as (db, run):
        assert run.seq == closed_store.run
        assert db.value("SELECT count(*) FROM jobs") == 1
        assert sorted(closed_store.folder.iterdir()) == before


@pytest.mark.parametrize("ended", [False, True], ids=["still running", "already ended"])
def test_a_crawl_that_starts_meanwhile_is_reported(
    closed_store: StoreHarness, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(DatabaseBusy, match="a crawl started while it was read"))
        db, _ = stack.enter_context(open_latest_run(closed_store.folder))
        other = Database.open(closed_store.folder / CRAWL)
        with other.transaction():
            other.execute("UPDATE jobs SET priority = 7")
        if ended:
            other.close()
        else:
            stack.callback(other.close)
        db.value("SELECT count(*) FROM jobs")
