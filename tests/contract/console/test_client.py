"""A data dir that cannot be written is read as immutable, unless a crawl starts meanwhile."""

import contextlib

import pytest

from console import client
from console.client import open_latest_run
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.db.schema import CRAWL
from tests.contract.store.house import House


@pytest.fixture
def closed_house(house: House) -> House:
    house.seed("http://a/1")
    house.db.close()
    assert not (house.folder / f"{CRAWL}-wal").exists()
    return house


def test_a_database_at_rest_is_read_without_a_log(closed_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.os, "access", lambda *_: False)
    before = sorted(closed_house.folder.iterdir())
    with open_latest_run(closed_house.folder) as (db, run):
        assert run.seq == closed_house.run
        assert db.value("SELECT count(*) FROM jobs") == 1
        assert sorted(closed_house.folder.iterdir()) == before


@pytest.mark.parametrize("ended", [False, True], ids=["still running", "already ended"])
def test_a_crawl_that_starts_meanwhile_is_reported(
    closed_house: House, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    monkeypatch.setattr(client.os, "access", lambda *_: False)
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(DatabaseBusy, match="a crawl started while it was read"))
        db, _ = stack.enter_context(open_latest_run(closed_house.folder))
        other = Database.open(closed_house.folder / CRAWL)
        with other.transaction():
            other.execute("UPDATE jobs SET priority = 7")
        if ended:
            other.close()
        else:
            stack.callback(other.close)
        db.value("SELECT count(*) FROM jobs")
