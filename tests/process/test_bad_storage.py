"""Data dirs that cannot be used, and damaged databases: exit 3, the file named, nothing changed."""

import hashlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.store.db.connector import Database

from .house import House, read_csv, until
from .library import Library
from .site import Site
from .small_disk import small_disk
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(60)


def crawled(house: House, site: Site) -> Library:
    library = Library(site, shelves=2)
    house.write(library.defs())
    house.crawl()
    return library


def standing(folder: Path) -> dict[str, tuple[int, str]]:
    """Each file of a data dir, but for the lock, which names who asked: its moment and its bytes."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "supervisor.lock"
    }


@pytest.mark.parametrize("command", ["run", "status", "cancel", "export"])
def test_data_dir_is_a_file_or_below_one(house: House, site: Site, command: str) -> None:
    house.write(Library(site).defs())
    house.data.write_text("a file")
    for data in (house.data, house.data / "below"):
        more = ["--no-ui", "--defs", str(house.defs)] if command == "run" else []
        done = house.run(command, *more, "--data", str(data))
        if command == "status" and data != house.data:
            assert done.code == 0, "what is not there has no run"
            continue
        assert done.code in ((3,) if command in ("run", "status") else (2, 3)), done.err
        assert str(data) in done.err
        assert "Traceback" not in done.err
        assert "fault of the program" not in done.err
    assert house.data.read_text() == "a file"
    assert site.visits == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder nobody may write to, root included")
def test_data_dir_cannot_be_made(house: House, site: Site) -> None:
    house.write(Library(site).defs())
    done = house.start(data=Path("/proc/self/data")).wait()
    assert done.code == 3, done.err
    assert "/proc/self/data" in done.err
    assert "--data" in done.err
    assert "Traceback" not in done.err


@pytest.fixture
def mortal() -> list[str]:
    """What goes before a command so that it runs with no more rights than the files give; root has more by itself."""
    if os.geteuid():
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may do everything, and setpriv, which takes that from a command, is not here")
    rights = "-dac_override,-dac_read_search"
    return ["setpriv", "--bounding-set", rights, "--inh-caps", rights]


@pytest.mark.parametrize("mode", [0o500, 0o000])
def test_data_dir_without_permission(house: House, site: Site, mortal: list[str], mode: int) -> None:
    house.write(Library(site).defs())
    house.data.mkdir(mode=mode)
    commands = [["run", "--no-ui", "--defs", str(house.defs)]]
    if not mode:
        commands += [["status"], ["runs"], ["jobs"], ["events"], ["state"], ["export"], ["cancel"]]
    for command in commands:
        for data in (house.data, house.data / "below")[: 1 if mode else 2]:
            done = house.command(*command, "--data", str(data), tracer=mortal).wait()
            assert done.code == 3, (command, done)
            assert str(house.data) in done.err
            assert "fault of the program" not in done.err


def test_what_was_crawled_is_read_where_nothing_may_be_written(house: House, site: Site, mortal: list[str]) -> None:
    library = crawled(house, site)
    rows = house.folder / "rows.csv"
    [(job,)] = house.query(f"SELECT id FROM jobs WHERE url = '{site.url('/book/0-1')}'")
    for name in ("crawl.db", "pages.db"):
        Database.open(house.data / name).close()  # the last one folds the log
    house.data.chmod(0o500)
    before = standing(house.data)
    assert not [name for name in before if name.endswith("-wal")]
    try:
        for line in ("status --json", "state", "runs", "jobs", "events", "logs", f"export book -o {rows}"):
            command = line.split()
            done = house.command(*command, "--data", str(house.data), tracer=mortal).wait()
            assert (done.code, done.err) == (0, ""), command
        shown = house.command("try", "book", "--job", str(job), "--data", str(house.data), tracer=mortal).wait()
        assert "ISBN 000-1" in shown.out, shown
    finally:
        house.data.chmod(0o700)
    assert len(read_csv(rows)) == library.shelves * library.books
    assert standing(house.data) == before


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda raw: random.Random(1).randbytes(len(raw)),
    "header": lambda raw: bytes(100) + raw[100:],
    "cut": lambda raw: raw[: len(raw) // 3 + 7],
    "text": lambda raw: b"hello, I am a shopping list\n" * 50,
}


@pytest.mark.parametrize("name", ["crawl.db", "pages.db"])
def test_a_corrupt_database_is_named_and_left_alone(house: House, site: Site, name: str) -> None:
    crawled(house, site)
    path = house.data / name
    with sqlite3.connect(path) as db:  # what lies in a log beside the file would mend it
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    good = path.read_bytes()
    for harm, spoil in HARMS.items():
        path.write_bytes(spoil(good))
        before = standing(house.data)
        done = house.start("--fresh").wait()
        assert done.code == 3, (harm, done.code, done.err)
        assert name in done.err, harm
        assert "Traceback" not in done.err, harm
        assert "fault of the program" not in done.err, harm
        assert standing(house.data) == before, harm
        house.assert_nobody_left(2)
        if name == "crawl.db":
            told = house.order("status", "--json")
            assert told.code == 3, (harm, told.out)
            assert name in told.err, harm
            assert told.out == ""
            assert standing(house.data) == before, harm


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 60))
def test_damage_within_the_tables_sweep(house: House, site: Site, seed: int) -> None:
    damaged(house, site, seed)


def test_damage_within_the_tables_never_ends_in_a_traceback(house: House, site: Site) -> None:
    damaged(house, site, 0)


def damaged(house: House, site: Site, seed: int) -> None:
    """Overwrite pages of the database at random: whatever the program then does, it says it in its own words."""
    crawled(house, site)
    path, dice = house.data / "crawl.db", random.Random(seed)
    raw = bytearray(path.read_bytes())
    for page in dice.sample(range(1, len(raw) // 4096), min(12, len(raw) // 4096 - 1)):
        raw[page * 4096 : (page + 1) * 4096] = dice.randbytes(4096)
    path.write_bytes(raw)
    done = house.start("--fresh").wait()
    assert done.code in (0, 3), done.err
    for command in (["status", "--json"], ["export", "book"]):
        assert house.order(*command).code in (0, 2, 3)
    assert "Traceback" not in done.err
    assert "fault of the program" not in done.err
    if done.code == 3:
        assert "crawl.db" in done.err
    house.assert_nobody_left(10)


def test_a_database_that_fails_while_jobs_are_leased_ends_the_run(house: House, site: Site) -> None:
    """What a node has leased and then cannot begin must not wait in its hands for ever."""
    library = Library(site, shelves=6, delay=0.1)
    house.write(library.defs(concurrency=2))
    running = house.start(nodes=2)
    assert until(lambda: len(site.paths) > 4)
    with sqlite3.connect(house.data / "crawl.db", timeout=20) as db:
        db.execute("ALTER TABLE document_aliases RENAME TO elsewhere")
    db.close()
    done = running.wait(40)
    assert done.code == 3, done.err
    assert "crawl.db" in done.err + house.logs()
    house.assert_nobody_left()
    with sqlite3.connect(house.data / "crawl.db") as db:
        db.execute("ALTER TABLE elsewhere RENAME TO document_aliases")
    db.close()
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


def test_a_database_of_somebody_else_or_of_tomorrow_is_refused(house: House, site: Site) -> None:
    house.write(Library(site).defs())
    house.data.mkdir()
    for sql in ("CREATE TABLE mine (x)", "PRAGMA user_version = 99"):
        with sqlite3.connect(house.data / "crawl.db") as db:
            db.execute(sql)
        db.close()
        before = standing(house.data)
        done = house.start().wait()
        assert done.code == 3, done.err
        assert "crawl.db" in done.err
        assert "Traceback" not in done.err
        assert standing(house.data) == before


@pytest.mark.parametrize("name", ["crawl.db", "pages.db"])
def test_a_corrupt_database_keeps_the_other_as_a_crash_left_it(house: House, site: Site, name: str) -> None:
    """What lies in a log beside a database is not even folded into it, when its neighbour cannot be used."""
    house.write(Library(site, shelves=4, delay=0.1).defs(concurrency=2))
    running = house.start()
    assert until(lambda: len(site.paths) > 4)
    for pid in [running.pid, *house.children("node"), *house.children("append")]:
        os.kill(pid, signal.SIGKILL)
    running.wait()
    house.assert_nobody_left()
    assert list(house.data.glob("crawl.db-wal"))
    (house.data / name).write_bytes(b"no database at all" * 500)
    before = standing(house.data)
    done = house.start().wait()
    assert done.code == 3
    assert name in done.err
    assert "Traceback" not in done.err
    assert standing(house.data) == before


@pytest.mark.parametrize("name", ["crawl.db", "pages.db", "data"])
def test_a_write_protected_database_is_named_and_left_alone(
    house: House, site: Site, name: str, tmp_path: Path
) -> None:
    crawled(house, site)
    with small_disk(tmp_path / "disk") as disk:
        moved = disk.path / name
        if name == "data":
            shutil.copytree(house.data, moved, symlinks=True)
            house.data = moved
        else:
            shutil.move(house.data / name, moved)
            (house.data / name).symlink_to(moved)
        before = standing(house.data)
        disk.read_only()
        done = house.start("--fresh").wait()
        assert done.code == 3, done.err
        assert str(house.data) in done.err
        assert name in done.err
        assert "Traceback" not in done.err
        assert "fault of the program" not in done.err
        assert standing(house.data) == before
        house.assert_nobody_left(2)


def test_a_data_dir_deleted_or_replaced_under_a_run_ends_it_with_3(house: House, site: Site) -> None:
    house.write(Library(site, shelves=6, books=8, delay=0.2).defs(concurrency=2))
    running = house.start()
    assert until(lambda: len(site.paths) > 4)
    moved = house.folder / "moved"
    os.rename(house.data, moved)
    watch = Stopwatch()
    done = running.wait()
    assert watch.seconds() < 5
    assert done.code == 3, done.err
    assert "crawl.db: deleted or replaced" in done.err
    assert "Traceback" not in done.err
    house.assert_nobody_left()
    shutil.rmtree(house.data, ignore_errors=True)  # what dying nodes said
    os.rename(moved, house.data)
    house.crawl()


def test_a_clean_end_leaves_no_logs_of_the_databases(house: House, site: Site) -> None:
    house.write(Library(site, shelves=2).defs())
    for code, arguments in ((0, ["--max-pages", "3"]), (0, [])):
        assert house.start(*arguments).wait().code == code
        house.order("status")
        assert {path.name for path in house.data.glob("*.db*")} == {"crawl.db", "pages.db", "queue.db"}


def test_a_second_supervisor_leaves_at_once_naming_the_first(house: House, site: Site) -> None:
    library = Library(site, shelves=4, delay=0.2)
    house.write(library.defs(concurrency=2))
    first = house.start()
    assert until(lambda: len(site.paths) > 2)
    watch = Stopwatch()
    second = house.start().wait()
    assert watch.seconds() < 2
    assert second.code == 4
    assert str(first.pid) in second.err
    assert house.status()["run"] in second.err
    assert second.out == ""
    done = first.wait()
    assert done.code == 0
    assert house.counted("entry", "book") == library.rows()
    house.assert_clean(done)


def test_of_many_started_at_once_one_wins(house: House, site: Site) -> None:
    library = Library(site, shelves=2, delay=0.1)
    house.write(library.defs())
    codes = sorted(running.wait().code for running in [house.start() for _ in range(4)])
    assert set(codes) <= {0, 4}, codes
    assert codes.count(0) >= 1
    assert house.counted("entry", "book") == library.rows()


def test_a_dead_holder_blocks_nobody(house: House, site: Site) -> None:
    library = Library(site, shelves=4, delay=0.2)
    house.write(library.defs(concurrency=2))
    first = house.start()
    assert until(lambda: len(site.paths) > 2)
    first.send(signal.SIGKILL)
    first.wait()
    watch = Stopwatch()
    second = house.start()
    assert until(lambda: (house.data / "crawl.db").exists() and house.status()["supervisor"] is not None)
    assert watch.seconds() < 4
    assert second.wait().code == 0
    assert house.counted("entry", "book") == library.rows()


def test_a_stale_lock_file_blocks_nobody(house: House, site: Site) -> None:
    house.write(Library(site, shelves=1).defs())
    house.data.mkdir(mode=0o700)
    for text in ("not json", f'{{"pid": {os.getpid()}, "identity": "x", "run": "y"}}'):
        (house.data / "supervisor.lock").write_text(text)
        house.crawl()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_full_stdout_ends_without_a_traceback(house: House, site: Site) -> None:
    house.write(Library(site, shelves=1).defs())
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "console", "run", "--no-ui", "--json", "--defs", house.defs, "--data", house.data],
            stdout=full,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            timeout=60,
            cwd=house.folder,
            check=False,
        )
    assert b"Traceback" not in done.stderr
    assert house.status()["state"] == "DONE"


@pytest.mark.parametrize("older", [False, True], ids=["lost", "an older copy"])
def test_stored_pages_that_are_lost_cost_fetches_but_no_page(house: House, site: Site, older: bool) -> None:
    library = Library(site, shelves=3)
    house.write(library.defs().replace("{list: {dataDef", "{live: P1D, list: {dataDef"))
    house.crawl("--max-pages", "3", code=0)
    copy = (house.data / "pages.db").read_bytes()
    house.crawl("--max-pages", "9", code=0)
    (house.data / "pages.db").unlink()
    if older:
        (house.data / "pages.db").write_bytes(copy)
    done = house.crawl()
    assert done.jobs == {"done": library.size}
    assert house.counted("entry", "book") == library.rows()
    [(text,)] = house.query("SELECT text FROM events WHERE text LIKE '%lost%'")
    assert text.startswith(f"pages.db has lost {6 if older else 9} stored pages: ")
    assert text in done.err
    site.forget()
    house.crawl("--fresh")
    assert house.counted("entry", "book") == library.rows()
    assert site.times("/shelf/0") == (0 if older else 1), "what the copy holds still serves"
    assert house.query("SELECT count(*) FROM events WHERE text LIKE '%lost%'") == [(1,)]
