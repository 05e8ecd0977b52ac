"""Outputs that are torn, refused or fail to reach the disk: what is recorded is in the file, and all of it once."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .house import House, until
from .library import Library
from .site import Site
from .test_deaths import library_of, under_way

pytestmark = pytest.mark.timeout(120)


def test_a_torn_tail_is_cut_to_what_is_recorded(house: House, site: Site) -> None:
    library = library_of(house, site, delay=0.05)
    running = under_way(house, site, "--max-pages", "30")
    assert running.wait().code == 0
    for name in ("book.csv", "book.jsonl", "entry.csv"):
        with house.output(name).open("ab") as file:
            file.write(b'"a row that was never recorded, and ends in the midd')
    done = house.crawl()
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    assert house.output("book.jsonl").read_bytes().count(b"\n") == len(house.rows("book"))


@pytest.mark.parametrize("harm", ["shortened", "deleted", "overwritten"])
def test_a_file_that_is_not_as_recorded_is_written_anew(house: House, site: Site, harm: str) -> None:
    library = library_of(house, site, delay=0.02)
    running = under_way(house, site, "--max-pages", "30")
    assert running.wait().code == 0
    path = house.output("book.csv")
    match harm:
        case "shortened":
            os.truncate(path, path.stat().st_size // 2)
        case "deleted":
            path.unlink()
        case "overwritten":
            path.write_bytes(b"x" * path.stat().st_size)
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to make fsync fail")
@pytest.mark.parametrize("number", [1, 4, *(pytest.param(n, marks=pytest.mark.sweep) for n in (2, 3, 5, 6, 7, 8))])
def test_what_fails_to_reach_the_disk_is_not_recorded(house: House, site: Site, number: int) -> None:
    """From its n-th fsync of a file on, the appender's disk fails for a while: the file is then written anew."""
    library = Library(site, shelves=4, books=6, delay=0.05)
    house.write(library.defs(concurrency=4))
    running = house.start()
    assert until(lambda: house.children("append"))
    [appender] = house.children("append")
    tracer = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", house.folder / "trace", "-p", str(appender), "-e", "trace=fsync",
         "-e", f"inject=fsync:error=EIO:when={number}..{number + 4}"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        done = running.wait()
    finally:
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGTERM)
        told = tracer.communicate(timeout=10)[1]
    if b"ptrace" in told:
        pytest.skip(f"strace may not look at processes here: {told!r}")
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    failed = (house.folder / "trace").read_text().count("EIO")
    assert failed, "the fault was there"
    # told of an output by the appender, of crawl.db by SQLite
    assert "Input/output error" in house.logs() or "disk I/O error" in house.logs()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit to limit a running process")
def test_an_appender_whose_files_may_not_grow_is_replaced(house: House, site: Site) -> None:
    """Not even its beat can be written; what is recorded is in the files all the while."""
    library = Library(site, shelves=6, books=8, delay=0.05)
    house.write(library.defs(concurrency=4))
    running = under_way(house, site, fetched=4)
    [appender] = house.children("append")
    before = resource.prlimit(appender, resource.RLIMIT_FSIZE)  # type: ignore[attr-defined]
    resource.prlimit(appender, resource.RLIMIT_FSIZE, (20, before[1]))  # type: ignore[attr-defined]
    assert until(lambda: house.query("SELECT count(*) FROM appenders") == [(2,)], 15)
    for path, size in house.query("SELECT path, bytes FROM outputs"):
        assert Path(path).stat().st_size >= size
    done = running.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()


@pytest.mark.parametrize("said", [b"", b'{"nodes": 2'])
@pytest.mark.parametrize("module", ["node", "append"])
def test_a_process_whose_supervisor_died_before_it_spoke_leaves_quietly(house: House, module: str, said: bytes) -> None:
    more = ["--number", "1", "--role", "RUNNER"] if module == "node" else ["--supervisor", "1"]
    done = subprocess.run(
        [sys.executable, "-m", f"engine.{module}", "--data", house.data, "--run", "1", "--epoch", "1", *more],
        input=said,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == b""
    with contextlib.suppress(FileNotFoundError):
        assert not list(house.data.iterdir())
