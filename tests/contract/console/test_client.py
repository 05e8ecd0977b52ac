"""A data dir that cannot be written is read as immutable, unless a crawl starts meanwhile."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from crawl_console.client import _find_holder, open_latest_run
from crawl_engine.runtime.host_clock import HostClock, machine_path
from crawl_engine.store.db.connector import DatabaseBusy, connect
from crawl_engine.store.db.schema import CRAWL
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


@pytest.mark.sqlite
@pytest.mark.parametrize("ended", [False, True], ids=["still running", "already ended"])
def test_a_crawl_that_starts_meanwhile_is_reported(
    closed_store: StoreHarness, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(DatabaseBusy, match="a crawl started while it was read"))
        db, _ = stack.enter_context(open_latest_run(closed_store.folder))
        other = connect(closed_store.folder / CRAWL)
        with other.transaction():
            other.execute("UPDATE jobs SET priority = 7")
        if ended:
            other.close()
        else:
            stack.callback(other.close)
        db.value("SELECT count(*) FROM jobs")


HOLD = """
import sys
from pathlib import Path
from crawl_engine.runtime.host_clock import HostClock
clock = HostClock(Path(sys.argv[1]), sys.argv[3])
print(clock.lock_slot(clock.find("a:80"), 0), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize("own", [False, True], ids=["another crawl", "this crawl"])
def test_the_crawl_that_holds_all_places_of_a_host_is_named(
    store: StoreHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = machine_path({"XDG_STATE_HOME": str(tmp_path / "state")})
    assert _find_holder(store.db, "a:80", 1) is None
    assert not path.exists()
    data = str(store.folder.resolve()) if own else "/crawls/other"
    command = [sys.executable, "-c", HOLD, str(path), "--data", data]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"True\n"
        assert _find_holder(store.db, "a:80", 1) == (None if own else data)
        assert _find_holder(store.db, "a:80", 2) is None, "another place is free"
        assert _find_holder(store.db, "b:80", 1) is None
        HostClock(store.folder / "hosts.clock", "x").close()
        assert _find_holder(store.db, "a:80", 1) is None, "this crawl has a clock of its own"
        holder.communicate()
