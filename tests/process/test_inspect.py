"""`jobs`, `retry`, `events`, `logs`: without a supervisor and beside one; a retry is never lost and doubles no row."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from .house import House, Running, until
from .library import Library
from .site import Asked, Page, Site, html
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(90)


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def broken(library: Library, *paths: str) -> dict[str, bool]:
    """These pages answer 500 until `up` is true."""
    standing = {"up": False}
    for path in paths:
        good = library.site.pages[path]

        def answer(asked: Asked, good: object = good) -> Page:
            if not standing["up"]:
                return Page("no", status=500)
            return good(asked) if callable(good) else good  # type: ignore[no-any-return, return-value]

        library.site[path] = answer
    return standing


def test_without_a_run(house: House) -> None:
    for command in (["jobs"], ["retry"], ["events"], ["events", "-f"], ["logs"], ["logs", "-f"]):
        done = house.order(*command)
        assert done.code == 2, command
        assert "crawl-console run" in done.err
        assert "Traceback" not in done.err
    assert not house.data.exists()


def test_what_failed_is_retried_after_the_run(house: House, site: Site) -> None:
    library = Library(site, shelves=3, books=4)
    standing = broken(library, "/book/1-1", "/shelf/2")
    house.write(library.defs())
    assert house.crawl("--set", "max_attempts=1", code=1).jobs["failed"] == 2
    listed = lines(house.order("jobs", "--state", "failed", "--json").out)
    assert {str(job["url"]) for job in listed} == {site.url("/book/1-1"), site.url("/shelf/2")}
    assert {job["reason"] for job in listed} == {"HTTP 500 (1 attempt)"}
    done = house.order("jobs", "--match", "SHELF/[0-1]$")
    assert done.out.count("DONE") == 2
    assert len(lines(house.order("jobs", "--json", "--limit", "3").out)) == 3
    assert "not a regular expression" in house.order("jobs", "--match", "(").err
    assert house.order("retry", "--match", "nothing like it").out == "0 jobs are READY again\n"
    assert house.status()["state"] == "DONE"

    standing["up"] = True
    done = house.order("retry")
    assert (done.code, done.out) == (0, "2 jobs are READY again\n")
    assert "crawl-console run" in done.err
    assert house.status()["state"] == "READY"
    steps = {(step["step_name"], step["completed"]) for step in lines((house.data / "state.jsonl").read_text())}
    assert ("seeder", True) in steps
    assert {("loader", False), ("appender", False)} <= steps, "the file tells of work again"
    run = house.status()["run"]
    asked = len(site.paths)
    assert house.crawl().summary["run"] == run
    assert set(site.paths[asked:]) == {"/book/1-1", "/shelf/2", *(f"/book/2-{b}" for b in range(4))}
    assert house.counted("entry", "book") == library.rows()

    done = house.order("retry", "--state", "done", "--match", "/book/0-")
    assert done.out == "4 jobs are READY again\n"
    assert house.status()["rows"]["book"] == 8
    house.crawl()
    assert house.counted("entry", "book") == library.rows(), "none is doubled"

    told = house.order("events", "--match", "retry:").out.splitlines()
    assert len(told) == 2
    errors = lines(house.order("events", "--level", "error", "--json").out)
    assert errors
    assert {event["level"] for event in errors} == {"ERROR"}
    last = lines(house.order("events", "--match", "^run .* DONE$", "--limit", "1", "--json").out)
    assert [event["source"] for event in last] == ["supervisor"]
    assert house.order("logs", "n99").code == 2
    assert house.order("logs").code == 0


def test_a_retry_beside_a_supervisor_is_worked_at_once(house: House, site: Site) -> None:
    library = Library(site, shelves=12, books=2, delay=0.25)
    standing = broken(library, "/book/0-0")
    house.write(library.defs(concurrency=2))
    running = house.start("--set", "max_attempts=1")
    assert until(lambda: "/book/0-0" in site.paths)
    assert until(lambda: house.query("SELECT 1 FROM jobs WHERE state = 'FAILED'"))
    standing["up"] = True
    asked = site.paths.count("/book/0-0")
    watch = Stopwatch()
    assert house.order("retry").out == "1 job is READY again\n"
    assert until(lambda: site.paths.count("/book/0-0") > asked, 15)
    assert watch.seconds() < 4
    assert running.wait().code == 0
    assert house.counted("entry", "book") == library.rows()


def test_a_retry_at_the_end_of_a_run_is_refused_or_worked(house: House, site: Site) -> None:
    library = Library(site, shelves=1, books=3)
    standing = broken(library, "/book/0-0")
    house.write(library.defs())
    running = house.start("--set", "max_attempts=1")
    assert until(lambda: "/book/0-0" in site.paths)
    assert until(lambda: house.query("SELECT 1 FROM jobs WHERE state = 'FAILED'"))
    standing["up"] = True
    retried = 0
    while not running.over:
        done = house.order("retry")
        assert done.code in (0, 2), done.err
        if done.code == 0:
            retried += int(done.out.split()[0])
        else:
            assert "is ending" in done.err
    assert running.wait().code in (0, 1)
    if house.status()["jobs"]["failed"]:
        assert house.order("retry").out == "1 job is READY again\n"
    if house.status()["state"] != "DONE":
        house.crawl()
    assert house.counted("entry", "book") == library.rows()


def follow(house: House, *arguments: str) -> Running:
    running = house.command(*arguments, "--data", str(house.data))
    assert until(lambda: running.out)
    return running


def test_followers_go_on_until_the_run_ends(house: House, site: Site) -> None:
    library = Library(site, shelves=8, books=2, delay=0.2)
    house.write(library.defs(concurrency=2))
    running = house.start()
    assert until(lambda: len(site.paths) > 3)
    library.pace(3)
    followed = follow(house, "events", "-f", "--json", "--limit", "2")
    interrupted = follow(house, "events", "-f", "--match", "200 ")
    files = house.command("logs", "-f", "--data", str(house.data))
    interrupted.send(signal.SIGINT)
    stopped = interrupted.wait()
    assert (stopped.code, stopped.err) == (130, "")
    extra = house.data / "logs" / "n77.log"
    extra.write_text("one\ntwo \x1b[2J\n")
    assert until(lambda: "n77: two ·[2J" in files.out)
    extra.write_text("cut\n")
    assert until(lambda: "n77: cut" in files.out)
    extra.unlink()
    extra.write_text("anew, no end")
    library.pace(0)
    assert running.wait().code == 0
    assert "n77: anew, no end" in files.wait().out
    done = followed.wait()
    assert done.code == 0
    found = [int(str(event["id"])) for event in lines(done.out)]
    first = found[0]
    kept = [row[0] for row in house.query(f"SELECT id FROM events WHERE id >= {first} ORDER BY id")]
    assert found == kept, "each once, in order, to the last"


def test_what_pages_say_moves_no_terminal(house: House, site: Site) -> None:
    site["/"] = html("<b>ISBN 1</b>")
    house.write(Library(site, shelves=1, books=0).defs().replace("/shelf/0", "/"))
    house.crawl()
    hostile = "\x1b]52;c;aGk=\x07\x9b2J\u202e[/b]"
    with contextlib.closing(sqlite3.connect(house.data / "crawl.db")) as db, db:
        db.execute("UPDATE jobs SET reason = ?, url = url || ?", (hostile, hostile))
        db.execute("UPDATE events SET text = ? WHERE kind = 'page'", (hostile,))
        columns = "run, at, level, source, kind, text"
        for _ in range(12):
            db.execute(f"INSERT INTO events ({columns}) SELECT {columns} FROM events")
    (house.data / "logs" / "n1.log").write_text(hostile, "utf-8")
    for command in (["jobs"], ["events"], ["logs", "n1"], ["retry", "--state", "done", "--match", "OSC|]52"]):
        done = house.order(*command)
        assert done.code == 0, done.err
        assert not set("\x1b\x07\x9b\u202e") & set(done.out + done.err), command
    told = [sys.executable, "-m", "console", "events", "--data", str(house.data)]
    with subprocess.Popen(told, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b"", "who reads no more hears no more"
        assert running.wait(30) == 0
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}
    told = [sys.executable, "-m", "console", "jobs", "--data", str(house.data)]
    assert subprocess.run(told, env=narrow, capture_output=True, timeout=20, check=True).stdout.isascii()
