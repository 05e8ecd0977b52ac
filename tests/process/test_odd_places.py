"""Odd circumstances: closed streams, strange paths, outputs lost between two starts, a data dir that vanishes."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .house import CRAWL, House, until
from .library import Library
from .site import Site

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("closed", ["<&- >&-", "2>&-", "| true", "2>/dev/full"])
def test_closed_streams_hinder_no_run(house: House, site: Site, closed: str) -> None:
    if "/dev/full" in closed and not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    library = Library(site, shelves=1)
    house.write(library.defs())
    command = [*CRAWL, "run", "--no-ui", "--json", "--defs", str(house.defs), "--data", str(house.data), "--nodes", "1"]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *command],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=house.folder,
        timeout=45,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    house.assert_clean()
    assert house.status()["state"] == "DONE"
    assert house.counted("entry", "book") == library.rows()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("command", ["status", "events", "export book", "--help"])
def test_an_output_that_is_full_is_told(house: House, site: Site, command: str) -> None:
    house.write(Library(site, shelves=1).defs())
    house.crawl()
    where = [] if command == "--help" else ["--data", str(house.data)]
    full = house.command(*command.split(), *where, tracer=["sh", "-c", '"$@" >/dev/full', "sh"]).wait()
    assert full.code == 3
    assert full.err.startswith("error: No space left on device\n")


def test_a_path_that_is_no_text_is_refused(house: House, site: Site) -> None:
    house.write(Library(site, shelves=1).defs())
    done = house.start(data=house.folder / "d\udcff").wait()
    assert done.code == 2
    assert "no UTF-8" in done.err
    assert site.visits == []


def test_a_process_whose_arguments_are_no_text_is_seen(house: House) -> None:
    command = [sys.executable, "-c", "input()", house.folder / "console\udcff"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as it:
        assert until(lambda: it.pid in house.alive())
    assert it.pid not in house.alive()


@pytest.mark.parametrize("command", ["runs", "status", "state"])
def test_a_database_nobody_filled_yet_has_no_run(house: House, command: str) -> None:
    house.data.mkdir()
    (house.data / "crawl.db").touch()
    done = house.order(command)
    assert (done.code, "no run yet" in done.out) == (0, True)
    assert house.order("export").code == 2


def test_strange_paths(house: House, site: Site) -> None:
    library = Library(site, shelves=1)
    house.write(library.defs())
    data = house.folder / "dätä ?#% 'x\" \n"
    done = house.start(data=data).wait()
    assert done.code == 0, done.err
    house.data = data
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    assert house.status()["state"] == "DONE"


def test_a_data_dir_can_be_moved_between_two_starts(house: House, site: Site) -> None:
    library = Library(site, shelves=3)
    house.write(library.defs())
    house.crawl("--max-pages", "5")
    house.data = house.data.rename(house.folder / "moved")
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


def test_outputs_harmed_between_two_starts_are_mended(house: House, site: Site) -> None:
    library = Library(site, shelves=3, books=6)
    more = "appenders: {rows: {type: csv}, lines: {type: jsonl}, base: {type: sqlite}}\n"
    house.write(library.defs(more=more))
    house.crawl("--max-pages", "12")
    book, entry, lines = (house.output(name) for name in ("book.csv", "entry.csv", "book.jsonl"))
    book.write_bytes(book.read_bytes()[:-7])
    entry.write_bytes(entry.read_bytes() + b'torn,"line')
    lines.unlink()
    house.output("entry.db").unlink()
    house.crawl("--max-pages", "15")
    shutil.rmtree(house.data / "output")
    house.crawl()
    assert house.counted("entry", "book") == library.rows()
    assert house.output("book.jsonl").read_bytes().count(b"\n") == 18


def test_a_data_dir_that_vanishes_leaves_no_orphans(house: House, site: Site) -> None:
    library = Library(site, shelves=6, books=6, delay=0.1)
    house.write(library.defs(concurrency=4))
    running = house.start()
    assert until(lambda: len(site.paths) > 8)
    shutil.rmtree(house.data)
    if not until(lambda: running.over, 15):
        running.send(signal.SIGTERM)
    done = running.wait(40)
    assert done.code in (0, 3, 143), done.err
    assert "Traceback" not in done.err
    house.assert_nobody_left()


def test_many_open_files_are_not_needed(house: House, site: Site) -> None:
    """The common limit of 256 open files (macOS) is enough."""
    library = Library(site, shelves=2)
    house.write(library.defs(concurrency=64))
    command = [*CRAWL, "run", "--no-ui", "--defs", str(house.defs), "--data", str(house.data)]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 256; "$@"', "sh", *command],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=house.folder,
        timeout=45,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    house.assert_clean()
    assert house.counted("entry", "book") == library.rows()


def test_a_program_that_is_imported_elsewhere_is_not_misled(house: House, site: Site) -> None:
    """Modules in the working directory that are named like the program's own, or the library's, are not run."""
    library = Library(site, shelves=1)
    house.write(library.defs())
    for name in ("engine", "json", "huey", "sqlite3"):
        (house.folder / f"{name}.py").write_text("raise SystemExit('not this one')\n")
    script = Path(sys.executable).with_name("crawl-console")
    if not script.exists():
        pytest.skip("not installed")
    done = subprocess.run(
        [script, "run", "--no-ui", "--defs", house.defs, "--data", house.data, "--nodes", "1"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=house.folder,
        timeout=45,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert house.counted("entry", "book") == library.rows()


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
