"""A data dir as commands open it: where they may not write, they read it as it lies there, as long as it lies still."""

import contextlib

import pytest

from console import client
from console.client import open_latest_run
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.db.schema import CRAWL
from tests.contract.store.harness import StoreHarness


@pytest.fixture
def resting(store: StoreHarness) -> StoreHarness:
    store.seed("http://a/1")
    store.db.close()
    assert not (store.folder / f"{CRAWL}-wal").exists()
    return store


def test_what_lies_still_is_read_and_nothing_is_left_beside_it(
    resting: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.os, "access", lambda *_: False)
    before = sorted(resting.folder.iterdir())
    with open_latest_run(resting.folder) as (db, run):
        assert run.seq == resting.run
        assert db.value("SELECT count(*) FROM jobs") == 1
        assert sorted(resting.folder.iterdir()) == before


@pytest.mark.parametrize("ended", [False, True], ids=["it goes on", "it ended meanwhile"])
def test_a_crawl_that_begins_meanwhile_is_told(
    resting: StoreHarness, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    monkeypatch.setattr(client.os, "access", lambda *_: False)
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(DatabaseBusy, match="a crawl began while it was read"))
        db, _ = stack.enter_context(open_latest_run(resting.folder))
        other = Database.open(resting.folder / CRAWL)
        with other.transaction():
            other.execute("UPDATE jobs SET priority = 7")
        if ended:
            other.close()
        else:
            stack.callback(other.close)
        db.value("SELECT count(*) FROM jobs")
