"""`vacuum`: free space goes back to the disk, every row stays, and nothing changes where it cannot."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crawl_engine.store.db import vacuum
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL, PAGES
from crawl_engine.store.tables.run import deleted_runs
from crawl_engine.store.transactions import delete_run
from crawl_engine.supervise.lock import Lock
from tests.contract.console.test_delete_runs import Cli, cli, crawl

__all__ = ["cli"]
pytestmark = pytest.mark.sqlite
LARGE = {str(page): os.urandom(20_000).hex() for page in range(12)}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two runs, the first of which is deleted."""
    (tmp_path / "beats").mkdir()
    crawl(tmp_path, LARGE, at=1.0)
    crawl(tmp_path, dict.fromkeys(LARGE, "small"), at=2.0)
    return tmp_path


def content(data: Path) -> list[list[tuple[object, ...]]]:
    rows = []
    for name in (CRAWL, PAGES):
        db = connect(data / name)
        tables = db.all("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_stat*'")
        rows += [db.all(f"SELECT * FROM {table} ORDER BY 1, 2") for (table,) in tables if table != "meta"]
        db.close()
    return rows


def test_it_prints_what_it_gave_back_and_finishes_a_deletion(cli: Cli, data: Path) -> None:
    db = connect(data / CRAWL)
    delete_run.begin(db, 1)
    db.close()
    before = {name: (data / name).stat().st_size for name in (CRAWL, PAGES)}
    code, out, error = cli("vacuum", "--json")
    assert (code, error) == (0, "")
    sizes = json.loads(out)
    assert set(sizes) == {CRAWL, PAGES}
    for name, size in sizes.items():
        assert size["after"] == (data / name).stat().st_size < size["before"]
        assert size["after"] < before[name] * 0.6
    db = connect(data / CRAWL)
    assert deleted_runs.list_open(db) == []
    db.close()
    left = content(data)
    code, out, _ = cli("vacuum")
    assert code == 0
    assert [line.split("  ")[0] for line in out.splitlines()] == [CRAWL, PAGES]
    assert all(line.split("  ")[1].count(" MB") == 2 for line in out.splitlines())
    assert content(data) == left
    assert list(data.glob("*-wal")) == []


def test_it_is_refused_while_a_crawl_runs(cli: Cli, data: Path) -> None:
    held = Lock.acquire(data)
    code, out, error = cli("vacuum")
    held.release()
    assert (code, out) == (4, "")
    assert error.startswith(f"error: vacuum: {data}: held by another process")


def test_without_a_run_it_is_refused(cli: Cli, tmp_path: Path) -> None:
    code, out, error = cli("vacuum")
    assert (code, out) == (2, "")
    assert "no run yet" in error
    assert list(tmp_path.iterdir()) == []


def test_it_works_after_the_last_run_was_deleted(cli: Cli, data: Path) -> None:
    ids = [run["run"] for run in json.loads(cli("runs", "--json")[1])["runs"]]
    assert cli("runs", "delete", *ids, "--yes", "--force")[0] == 0
    pruned = json.loads(cli("pages", "prune", "--keep", "0", "--yes", "--json")[1])
    assert pruned["pruned"] > 0
    assert pruned["left"] == 0
    assert cli("files", "prune", "--keep", "0", "--yes")[0] == 0
    shrunk = json.loads(cli("vacuum", "--json")[1])[PAGES]
    assert shrunk["after"] < shrunk["before"]


def test_without_space_it_is_refused_and_nothing_changes(cli: Cli, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("runs", "prune", "--keep", "1", "--yes")[0] == 0
    size = (data / PAGES).stat().st_size
    monkeypatch.setattr(vacuum, "free_bytes", lambda _: 1_000_000)
    code, _, error = cli("vacuum")
    assert code == 3
    assert "1.0 MB are free on the disk, " in error
    assert "Nothing was changed." in error
    assert (data / PAGES).stat().st_size == size


def test_a_reader_delays_it_and_is_named(cli: Cli, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("runs", "prune", "--keep", "1", "--yes")[0] == 0
    monkeypatch.setattr(vacuum, "_CHECKPOINT_SECONDS", 0.2)
    left = content(data)
    reader = connect(data / CRAWL, read_only=True)
    with reader.snapshot():
        reader.value("SELECT count(*) FROM runs")
        code, _, error = cli("vacuum")
    reader.close()
    assert code == 3
    assert f"{data / CRAWL}: a process has been reading for a long time" in error
    assert content(data) == left
    assert cli("vacuum")[0] == 0


@pytest.mark.parametrize("milliseconds", [0, pytest.param(3, marks=pytest.mark.sweep), 10])
def test_a_kill_leaves_every_row(cli: Cli, data: Path, milliseconds: int) -> None:
    assert cli("runs", "prune", "--keep", "1", "--yes")[0] == 0
    left = content(data)
    code = (
        "import sys\nfrom pathlib import Path\nfrom crawl_engine.store.db.vacuum import vacuum\n"
        "print('ready', flush=True)\nfor path in sys.argv[1:]: vacuum(Path(path))"
    )
    arguments = [sys.executable, "-c", code, str(data / PAGES), str(data / CRAWL)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(milliseconds / 1000)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert content(data) == left
    for name in (CRAWL, PAGES):
        db = connect(data / name)
        assert db.value("PRAGMA integrity_check") == "ok"
        db.close()
    assert cli("vacuum")[0] == 0
    assert content(data) == left
