"""Unusual environments: closed streams, strange paths, missing outputs, a data dir that is deleted."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sample import sampled

from .library import Library
from .project import CRAWL, Project, until
from .site import Site

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("closed", sampled(["<&- >&-", "2>&-", "| true", "2>/dev/full"], 0, 3))
def test_closed_streams_do_not_stop_a_run(project: Project, site: Site, closed: str) -> None:
    if "/dev/full" in closed and not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    library = Library(site, shelves=1)
    project.write(library.defs())
    command = [
        *CRAWL,
        "run",
        "--no-ui",
        "--json",
        "--defs",
        str(project.defs),
        "--data",
        str(project.data),
        "--nodes",
        "1",
    ]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *command],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=project.folder,
        timeout=45,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    project.assert_clean()
    assert project.status()["state"] == "DONE"
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("command", sampled(["status", "events", "export book", "--help"], 0, 2))
def test_a_full_stdout_is_reported(project: Project, site: Site, command: str) -> None:
    project.write(Library(site, shelves=1).defs())
    project.crawl()
    where = [] if command == "--help" else ["--data", str(project.data)]
    full = project.start_command(*command.split(), *where, tracer=["sh", "-c", '"$@" >/dev/full', "sh"]).wait()
    assert full.code == 3
    assert full.err.startswith("error: No space left on device\n")


def test_a_path_that_is_not_utf8_is_refused(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    done = project.start(data=project.folder / "d\udcff").wait()
    assert done.code == 2
    assert "not UTF-8" in done.err
    assert site.exchanges == []


def test_a_process_with_non_utf8_arguments_is_listed(project: Project) -> None:
    command = [sys.executable, "-c", "input()", project.folder / "console\udcff"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert until(lambda: process.pid in project.live_processes())
    assert process.pid not in project.live_processes()


@pytest.mark.parametrize("command", ["runs", "status", "state"])
def test_an_empty_database_has_no_run(project: Project, command: str) -> None:
    project.data.mkdir()
    (project.data / "crawl.db").touch()
    done = project.run_with_data(command)
    assert (done.code, "no run yet" in done.out) == (0, True)
    assert project.run_with_data("export").code == 2


@pytest.mark.sweep
def test_strange_paths(project: Project, site: Site) -> None:
    library = Library(site, shelves=1)
    project.write(library.defs())
    data = project.folder / "dätä ?#% 'x\" \n"
    done = project.start(data=data).wait()
    assert done.code == 0, done.err
    project.data = data
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    assert project.status()["state"] == "DONE"


@pytest.mark.sweep
def test_a_data_dir_can_be_moved_between_two_starts(project: Project, site: Site) -> None:
    library = Library(site, shelves=3)
    project.write(library.defs())
    project.crawl("--max-pages", "5")
    project.data = project.data.rename(project.folder / "moved")
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_outputs_damaged_between_two_starts_are_repaired(project: Project, site: Site) -> None:
    library = Library(site, shelves=3, books=6)
    more = "appenders: {rows: {type: csv}, lines: {type: jsonl}, base: {type: sqlite}}\n"
    project.write(library.defs(more=more))
    project.crawl("--max-pages", "12")
    book, entry, lines = (project.output(name) for name in ("book.csv", "entry.csv", "book.jsonl"))
    book.write_bytes(book.read_bytes()[:-7])
    entry.write_bytes(entry.read_bytes() + b'torn,"line')
    lines.unlink()
    project.output("entry.db").unlink()
    project.crawl("--max-pages", "15")
    shutil.rmtree(project.data / "output")
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()
    assert project.output("book.jsonl").read_bytes().count(b"\n") == 18


def test_a_data_dir_that_vanishes_leaves_no_orphans(project: Project, site: Site) -> None:
    library = Library(site, shelves=6, books=6, delay=0.1)
    project.write(library.defs(concurrency=4))
    running = project.start()
    assert until(lambda: len(site.paths) > 8)

    def vanished() -> bool:
        shutil.rmtree(project.data, ignore_errors=True)  # a process may write into a folder that is being deleted
        return not project.data.exists()

    assert until(vanished)
    if not until(lambda: running.exited, 15):
        running.send(signal.SIGTERM)
    done = running.wait(40)
    assert done.code in (0, 3, 143), done.err
    assert "Traceback" not in done.err
    project.assert_no_process_left()


def test_256_open_files_are_enough(project: Project, site: Site) -> None:
    """The common limit of 256 open files (macOS) is enough."""
    library = Library(site, shelves=2)
    project.write(library.defs(concurrency=64))
    command = [*CRAWL, "run", "--no-ui", "--defs", str(project.defs), "--data", str(project.data)]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 256; "$@"', "sh", *command],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=project.folder,
        timeout=45,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    project.assert_clean()
    assert project.count_rows("entry", "book") == library.rows()


def test_modules_in_the_working_directory_are_not_imported(project: Project, site: Site) -> None:
    """Modules in the working directory with the names of our own or of library modules are not imported."""
    library = Library(site, shelves=1)
    project.write(library.defs())
    for name in ("crawl_engine", "json", "huey", "sqlite3"):
        (project.folder / f"{name}.py").write_text("raise SystemExit('not this one')\n")
    script = Path(sys.executable).with_name("crawl-console")
    if not script.exists():
        pytest.skip("not installed")
    done = subprocess.run(
        [script, "run", "--no-ui", "--defs", project.defs, "--data", project.data, "--nodes", "1"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=project.folder,
        timeout=45,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_full_stdout_ends_without_a_traceback(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "crawl_console",
                "run",
                "--no-ui",
                "--json",
                "--defs",
                project.defs,
                "--data",
                project.data,
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            timeout=60,
            cwd=project.folder,
            check=False,
        )
    assert b"Traceback" not in done.stderr
    assert project.status()["state"] == "DONE"
