"""Outputs that are torn, refused or fail to reach the disk: recorded rows are in the file, each once."""

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.sample import sampled

from .killed_crawl import library_of, start_crawl
from .library import Library
from .project import Project, until
from .site import Page, Site, html
from .stopwatch import slowness

pytestmark = pytest.mark.timeout(120)


@pytest.mark.quick
def test_a_torn_tail_is_cut_to_what_is_recorded(project: Project, site: Site) -> None:
    library = library_of(project, site, delay=0.05)
    running = start_crawl(project, site, "--max-pages", "30")
    assert running.wait().code == 0
    for name in ("book.csv", "book.jsonl", "entry.csv"):
        with project.output(name).open("ab") as file:
            file.write(b'"a row that was never recorded, and ends in the midd')
    done = project.crawl()
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    assert project.output("book.jsonl").read_bytes().count(b"\n") == len(project.rows("book"))


@pytest.mark.quick
@pytest.mark.parametrize("damage", sampled(["shortened", "deleted", "overwritten"], 2))
def test_a_file_that_is_not_as_recorded_is_rebuilt(project: Project, site: Site, damage: str) -> None:
    library = library_of(project, site, delay=0.02)
    running = start_crawl(project, site, "--max-pages", "30")
    assert running.wait().code == 0
    path = project.output("book.csv")
    match damage:
        case "shortened":
            os.truncate(path, path.stat().st_size // 2)
        case "deleted":
            path.unlink()
        case "overwritten":
            path.write_bytes(b"x" * path.stat().st_size)
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to make fsync fail")
@pytest.mark.parametrize("number", [1, 4, *(pytest.param(n, marks=pytest.mark.sweep) for n in (2, 3, 5, 6, 7, 8))])
def test_data_that_fails_to_reach_the_disk_is_not_recorded(project: Project, site: Site, number: int) -> None:
    """From its n-th fsync of a file on, the appender's disk fails for a while; the file is then rebuilt."""
    library = Library(site, shelves=4, books=6, delay=0.05)
    project.write(library.defs(concurrency=4))
    running = project.start()
    assert until(lambda: project.children("appender"))
    [appender] = project.children("appender")
    tracer = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", project.folder / "trace", "-p", str(appender), "-e", "trace=fsync",
         "-e", f"inject=fsync:error=EIO:when={number}..{number + 4}"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        done = running.wait()
    finally:
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGTERM)
        stderr = tracer.communicate(timeout=10)[1]
    if b"ptrace" in stderr:
        pytest.skip(f"strace may not trace processes here: {stderr!r}")
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    failed = (project.folder / "trace").read_text().count("EIO")
    assert failed, "strace injected the error"
    # the appender reports it for an output, SQLite for crawl.db
    assert "Input/output error" in project.logs() or "disk I/O error" in project.logs()


@pytest.mark.sweep
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit to limit a running process")
def test_an_appender_whose_files_cannot_grow_is_replaced(project: Project, site: Site) -> None:
    """Not even its heartbeat can be written; recorded rows stay in the files."""
    library = Library(site, shelves=6, books=8, delay=0.05)
    project.write(library.defs(concurrency=4))
    running = start_crawl(project, site, fetched=4)
    [appender] = project.children("appender")
    before = resource.prlimit(appender, resource.RLIMIT_FSIZE)  # type: ignore[attr-defined]
    resource.prlimit(appender, resource.RLIMIT_FSIZE, (20, before[1]))  # type: ignore[attr-defined]
    assert until(lambda: project.query("SELECT count(*) FROM appenders") == [(2,)], 15)
    for path, size in project.query("SELECT path, bytes FROM outputs"):
        assert Path(path).stat().st_size >= size
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.parametrize("sent", [b"", b"\x30\0", b'\x30\0\0\0{"type": "start"'])
def test_a_process_whose_supervisor_died_before_its_order_exits_quietly(project: Project, sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "crawl_engine.processes.start", "--data", project.data], stdin=theirs,
            stderr=subprocess.PIPE,
        )  # fmt: skip
    with ours:
        ours.sendall(sent)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, b"")
    with contextlib.suppress(FileNotFoundError):
        assert not list(project.data.iterdir())


@pytest.mark.parametrize("folder", ["/dev/null", "/proc"])
def test_an_output_that_cannot_be_written_is_refused_at_the_start(project: Project, site: Site, folder: str) -> None:
    library = Library(site, shelves=1, books=1)
    project.write(library.defs())
    done = project.start("-o", f"{folder}/x.csv").wait(20)
    assert done.code == 2
    assert f"{folder}/x" in done.err
    assert "cannot be written" in done.err
    assert site.paths == []


@pytest.mark.sweep
def test_a_run_whose_output_fails_later_ends_and_the_next_run_writes_its_rows(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=3)
    hold = threading.Event()
    site["/book/1-2"] = Page(html("<b>x</b>"), hold=hold)
    project.write(library.defs())
    target = project.folder / "out"
    running = project.start("-o", str(target / "rows.jsonl"))
    assert until(lambda: "/book/1-2" in site.paths)
    shutil.rmtree(target)
    target.write_text("in the way")
    hold.set()
    ended_at = time.monotonic()
    done = running.wait(40)
    assert done.code == 3
    assert (time.monotonic() - ended_at) / slowness() < 12
    target.unlink()
    project.crawl("-o", str(target / "rows.jsonl"), code=0)
    ((stored,),) = project.query("SELECT count(*) FROM rows")
    assert sum(len(path.read_text().splitlines()) for path in target.iterdir()) == stored
