"""Data dirs that cannot be used, are read-only, or vanish during a run: exit 3, the path named, nothing changed."""

import hashlib
import os
import shutil
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
