"""`jobs`, `retry`, `events`, `logs`: with and without a supervisor; retries double no row."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from .library import Library
from .project import Project, Running, until
from .site import Page, Request, Site, html
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(90)


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def break_pages(library: Library, *paths: str) -> dict[str, bool]:
    """These pages answer 500 until `up` is true."""
    server = {"up": False}
    for path in paths:
        good = library.site.pages[path]

        def respond(request: Request, good: object = good) -> Page:
            if not server["up"]:
                return Page("no", status=500)
            return good(request) if callable(good) else good  # type: ignore[no-any-return, return-value]

        library.site[path] = respond
    return server


def test_without_a_run(project: Project) -> None:
    for command in (["jobs"], ["retry"], ["events"], ["events", "-f"], ["logs"], ["logs", "-f"]):
        done = project.run_with_data(*command)
        assert done.code == (2 if command == ["retry"] else 0), command
        assert done.out == ""
        assert "crawl-console run" in done.err
        assert "Traceback" not in done.err
    assert not project.data.exists()


def test_failed_jobs_are_retried_after_the_run(project: Project, site: Site) -> None:
    library = Library(site, shelves=3, books=4)
    server = break_pages(library, "/book/1-1", "/shelf/2")
    project.write(library.defs())
    assert project.crawl("--set", "max_attempts=1", code=1).jobs["failed"] == 2
    listed = lines(project.run_with_data("jobs", "--state", "failed", "--json").out)
    assert {str(job["url"]) for job in listed} == {site.url("/book/1-1"), site.url("/shelf/2")}
    assert {job["reason"] for job in listed} == {"HTTP 500 (1 attempt)"}
    done = project.run_with_data("jobs", "--match", "SHELF/[0-1]$")
    assert done.out.count("DONE") == 2
    assert len(lines(project.run_with_data("jobs", "--json", "--limit", "3").out)) == 3
    assert "not a regular expression" in project.run_with_data("jobs", "--match", "(").err
    done = project.run_with_data("jobs", "--match", "host:127.0.0.1 attempts:1 SHELF/[0-1]$ !shelf/0")
    assert len(done.out.splitlines()) == 2, done.err
    assert project.run_with_data("jobs", "--match", "host:nowhere.example").out == ""
    assert "unknown key" in project.run_with_data("jobs", "--match", "host:x colour:red").err
    assert project.run_with_data("retry", "--match", "nothing like it").out == "0 jobs are READY again\n"
    assert project.status()["state"] == "DONE"

    server["up"] = True
    done = project.run_with_data("retry")
    assert (done.code, done.out) == (0, "2 jobs are READY again\n")
    assert "crawl-console run" in done.err
    assert project.status()["state"] == "READY"
    steps = {(step["step_name"], step["completed"]) for step in lines((project.data / "state.jsonl").read_text())}
    assert ("seeder", True) in steps
    assert {("loader", False), ("appender", False)} <= steps, "state.jsonl shows open work again"
    run = project.status()["run"]
    fetched = len(site.paths)
    assert project.crawl().summary["run"] == run
    assert set(site.paths[fetched:]) == {"/book/1-1", "/shelf/2", *(f"/book/2-{b}" for b in range(4))}
    assert project.count_rows("entry", "book") == library.rows()

    done = project.run_with_data("retry", "--state", "done", "--match", "/book/0-")
    assert done.out == "4 jobs are READY again\n"
    assert project.status()["rows"]["book"] == 8
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows(), "no row is doubled"

    retries = project.run_with_data("events", "--match", "retry:").out.splitlines()
    assert len(retries) == 2
    errors = lines(project.run_with_data("events", "--level", "error", "--json").out)
    assert errors
    assert {event["level"] for event in errors} == {"ERROR"}
    last = lines(project.run_with_data("events", "--match", "^run .* DONE$", "--limit", "1", "--json").out)
    assert [event["source"] for event in last] == ["supervisor"]
    assert project.run_with_data("logs", "n99").code == 2
    assert project.run_with_data("logs").code == 0
    (project.data / "logs" / "n88.log").write_text("".join(f"{n:>70}\n" for n in range(5_000)), "utf-8")
    shown = project.run_with_data("logs", "n88", "--limit", "2000").out.split()
    assert shown == [str(n) for n in range(3_000, 5_000)]
    assert project.run_with_data("logs", "n88", "--limit", "9999").out.split()[0] == "0"
    assert lines(project.run_with_data("logs", "--limit", "1", "--json").out)[-1] == {
        "process": "n88",
        "line": f"{4999:>70}",
    }


@pytest.mark.sweep
def test_a_retry_during_a_run_is_fetched_at_once(project: Project, site: Site) -> None:
    library = Library(site, shelves=12, books=2, delay=0.25)
    server = break_pages(library, "/book/0-0")
    project.write(library.defs(concurrency=2))
    running = project.start("--set", "max_attempts=1")
    assert until(lambda: "/book/0-0" in site.paths)
    assert until(lambda: project.query("SELECT 1 FROM jobs WHERE state = 'FAILED'"))
    server["up"] = True
    fetched = site.paths.count("/book/0-0")
    watch = Stopwatch()
    assert project.run_with_data("retry").out == "1 job is READY again\n"
    assert until(lambda: site.paths.count("/book/0-0") > fetched, 15)
    assert watch.seconds() < 4
    assert running.wait().code == 0
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_a_retry_at_the_end_of_a_run_is_refused_or_fetched(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=3)
    server = break_pages(library, "/book/0-0")
    project.write(library.defs())
    running = project.start("--set", "max_attempts=1")
    assert until(lambda: "/book/0-0" in site.paths)
    assert until(lambda: project.query("SELECT 1 FROM jobs WHERE state = 'FAILED'"))
    server["up"] = True
    retried = 0
    while not running.exited:
        done = project.run_with_data("retry")
        assert done.code in (0, 2), done.err
        if done.code == 0:
            retried += int(done.out.split()[0])
        else:
            assert "is ending" in done.err
    assert running.wait().code in (0, 1)
    if project.status()["jobs"]["failed"]:
        assert project.run_with_data("retry").out == "1 job is READY again\n"
    if project.status()["state"] != "DONE":
        project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


def follow(project: Project, *arguments: str) -> Running:
    running = project.start_command(*arguments, "--data", str(project.data))
    assert until(lambda: running.out)
    return running


@pytest.mark.sweep
def test_followers_run_until_the_run_ends(project: Project, site: Site) -> None:
    library = Library(site, shelves=8, books=2, delay=0.2)
    project.write(library.defs(concurrency=2))
    running = project.start()
    assert until(lambda: len(site.paths) > 3)
    library.set_delay(3)
    followed = follow(project, "events", "-f", "--json", "--limit", "2")
    interrupted = follow(project, "events", "-f", "--match", "200 ")
    files = project.start_command("logs", "-f", "--data", str(project.data))
    interrupted.send(signal.SIGINT)
    stopped = interrupted.wait()
    assert (stopped.code, stopped.err) == (130, "")
    extra = project.data / "logs" / "n77.log"
    extra.write_text("one\ntwo \x1b[2J\n")
    assert until(lambda: "n77: two ·[2J" in files.out)
    extra.write_text("cut\n")
    assert until(lambda: "n77: cut" in files.out)
    extra.unlink()
    extra.write_text("new file, no newline")
    library.set_delay(0)
    assert running.wait().code == 0
    assert "n77: new file, no newline" in files.wait().out
    done = followed.wait()
    assert done.code == 0
    ids = [int(str(event["id"])) for event in lines(done.out)]
    first = ids[0]
    stored = [row[0] for row in project.query(f"SELECT id FROM events WHERE id >= {first} ORDER BY id")]
    assert ids == stored, "each event once, in order, to the last"


@pytest.mark.sweep
def test_text_from_pages_is_cleaned_for_the_terminal(project: Project, site: Site) -> None:
    site["/"] = html("<b>ISBN 1</b>")
    project.write(Library(site, shelves=1, books=0).defs().replace("/shelf/0", "/"))
    project.crawl()
    hostile = "\x1b]52;c;aGk=\x07\x9b2J\u202e[/b]"
    with contextlib.closing(sqlite3.connect(project.data / "crawl.db")) as db, db:
        db.execute("UPDATE jobs SET reason = ?, url = url || ?", (hostile, hostile))
        db.execute("UPDATE events SET text = ? WHERE kind = 'page'", (hostile,))
        columns = "run, at, level, source, kind, text"
        for _ in range(12):
            db.execute(f"INSERT INTO events ({columns}) SELECT {columns} FROM events")
    (project.data / "logs" / "n1.log").write_text(hostile, "utf-8")
    for command in (["jobs"], ["events"], ["logs", "n1"], ["retry", "--state", "done", "--match", "OSC|]52"]):
        done = project.run_with_data(*command)
        assert done.code == 0, done.err
        assert not set("\x1b\x07\x9b\u202e") & set(done.out + done.err), command
    command = [sys.executable, "-m", "crawl_console", "events", "--data", str(project.data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b"", "a closed pipe is not an error"
        assert running.wait(30) == 0
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "crawl_console", "jobs", "--data", str(project.data)]
    assert subprocess.run(command, env=narrow, capture_output=True, timeout=20, check=True).stdout.isascii()
