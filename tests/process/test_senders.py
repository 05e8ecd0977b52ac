"""Rows sent to a receiver of the user: each change arrives, in order, and no row id has two contents."""

import hashlib
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sample import sampled

from .library import Library
from .project import Project, until
from .receiver import Receiver
from .site import Site

pytestmark = pytest.mark.timeout(180)

PROGRAM = '''\
"""Keeps the objects in a file, and acknowledges each batch by its last one."""

import json, os, sys, time

folder, fault = sys.argv[1:3]
journal = open(folder + "/journal.jsonl", "a")
for number, line in enumerate(sys.stdin, 1):
    journal.write(line)
    journal.flush()
    if fault == "die" and number == 7:
        sys.exit(5)
    if fault == "nonsense":
        print("stored")
    print(json.dumps({"ack": json.loads(line)["id"]}), flush=True)
'''


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.die()


def write_project(project: Project, library: Library, sender: str, **options: Any) -> None:
    appenders = f"appenders:\n  rows: {{type: csv}}\n  crm: {sender}\n"
    project.write(library.defs(more=appenders, **options))


def http(receiver: Receiver, more: str = "") -> str:
    return f"{{type: http, url: '{receiver.url}', batch: 10, limit: 1{more}}}"


def command(project: Project, fault: str = "none") -> str:
    (project.defs / "plugins").mkdir(exist_ok=True)
    (project.defs / "plugins" / "store.py").write_text(PROGRAM, "utf-8")
    return f"{{type: command, run: [python3, plugins/store.py, '{project.folder}', {fault}], limit: 5}}"


def sender_outputs(project: Project) -> dict[str, dict[str, Any]]:
    return {o["name"]: o for o in project.status()["appenders"] if o["name"].startswith("crm/")}


def assert_received(project: Project, receiver: Receiver) -> None:
    """The receiver holds exactly the rows of the run, by id and content."""
    stored = project.query("SELECT id FROM rows")
    assert receiver.rows.keys() == {id_ for (id_,) in stored}
    assert receiver.violations == []


def test_rows_are_posted_in_batches_with_a_key(
    project: Project, site: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(site, shelves=3, books=5)
    monkeypatch.setenv("CRM_TOKEN", "t0ken")
    appender = http(receiver, ", headers: {Authorization: 'Bearer %{env.CRM_TOKEN}', X-From: pa55word}")
    write_project(project, library, appender.replace("/rows'", "/rows?key=%{env.CRM_TOKEN}'"))
    done = project.crawl(nodes=1)
    assert receiver.values() == library.rows()
    assert_received(project, receiver)
    run = done.summary["run"]
    for key, body in receiver.bodies.items():
        changes = json.loads(body)
        assert key == hashlib.blake2b(body, digest_size=16).hexdigest()
        assert {change["run"] for change in changes} == {run}
        assert len(changes) <= 10
    assert receiver.headers["Authorization"] == "Bearer t0ken"
    assert receiver.headers["X-From"] == "pa55word"
    assert receiver.headers["Content-Type"] == "application/json"
    for path in project.data.rglob("*"):
        if path.is_file() and not path.is_socket():
            content = path.read_bytes()
            assert b"pa55word" not in content or path.name.startswith("crawl.db"), path
            assert b"t0ken" not in content, path
    assert {o["rows"] for o in sender_outputs(project).values()} == {0, 15}
    assert {o["backlog"] for o in sender_outputs(project).values()} == {0}


@pytest.mark.quick
def test_a_receiver_that_fails_loses_answers_and_dies_has_exactly_the_rows(
    project: Project, site: Site, receiver: Receiver
) -> None:
    """Half the posts fail, some are stored without an answer, it dies twice, and a def is edited meanwhile."""
    library = Library(site, shelves=8, books=6, delay=0.4)  # the def is edited before the last page
    write_project(project, library, http(receiver), concurrency=4)
    receiver.refuses, receiver.loses = 0.4, 0.1
    running = project.start(nodes=1)
    text = (project.defs / "crawl.yml").read_text()
    for number in range(2):
        assert until(lambda: len(receiver.rows) > 5, 20)
        receiver.die()
        if number == 0:
            assert until(lambda: project.status()["rows"].get("book", 0) > 10, 20)
            project.write(text.replace('path: {value: "%{document.url}"}', 'path: {value: "edited"}'))
        time.sleep(2)
        receiver.start()
        time.sleep(0.5)
    receiver.refuses = 0.2
    done = running.wait(120)
    for _ in range(5):
        if done.code != 3:
            break
        asked = len(site.paths)
        done = project.start(nodes=1).wait(60)
        assert len(site.paths) == asked, "the next run sends without fetching"
    assert done.code == 0, done.err
    assert receiver.counts["refuse"] > 3
    assert receiver.counts["lose"] > 0
    assert_received(project, receiver)
    assert {change["row"]["path"] for change in receiver.rows.values() if change["dataDef"] == "book"} == {"edited"}
    assert len(receiver.rows) == 2 * 48


@pytest.mark.sweep
def test_a_dead_receiver_delays_its_rows_alone_and_the_next_run_sends_them(
    project: Project, site: Site, receiver: Receiver
) -> None:
    library = Library(site, shelves=2, books=4)
    write_project(project, library, http(receiver))
    receiver.die()
    done = project.start(nodes=1).wait(60)
    assert done.code == 3
    assert "the output crm/" in done.err
    assert "no connection" in done.err
    assert project.count_rows("entry", "book") == library.rows()
    assert all(o["error"] and o["backlog"] == 8 for o in sender_outputs(project).values() if "nothing" not in o["name"])
    asked = len(site.paths)
    receiver.start()
    project.crawl(nodes=1)
    assert len(site.paths) == asked
    assert receiver.values() == library.rows()
    assert_received(project, receiver)
    assert all(o["error"] is None for o in sender_outputs(project).values())


REFUSALS = [
    ((302, {"Location": "/other"}, b""), "answered 302 Found, which is not followed: write the URL that takes rows"),
    ((401, {}, b""), "answered 401 Unauthorized: set what it asks for in `headers`"),
    ((500, {"Content-Length": "9"}, b"half"), "answered 500 Internal Server Error"),
    ((503, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, b""), "answered 503 Service Unavailable"),
]


@pytest.mark.parametrize(("answer", "error"), sampled(REFUSALS, 0))
def test_what_a_receiver_refuses_is_said(
    project: Project, site: Site, receiver: Receiver, answer: Any, error: str
) -> None:
    library = Library(site, shelves=1, books=2)
    write_project(project, library, http(receiver))
    receiver.answer = answer
    running = project.start(nodes=1)
    assert until(lambda: any(o["error"] for o in sender_outputs(project).values()), 20)
    assert {o["error"] for o in sender_outputs(project).values() if o["error"]} == {error}
    receiver.answer = (204, {"Content-Length": "0"}, b"")
    assert running.wait(60).code == 0
    assert receiver.values() == library.rows()


@pytest.mark.parametrize("body", sampled([b"\x00\xff rubbish", b"half"], 1))
def test_a_success_counts_whatever_its_body(project: Project, site: Site, receiver: Receiver, body: bytes) -> None:
    library = Library(site, shelves=1, books=3)
    write_project(project, library, http(receiver))
    receiver.answer = (201, {"Content-Length": "99"} if body == b"half" else {}, body)
    project.crawl(nodes=1)
    assert receiver.values() == library.rows()
    assert receiver.counts["posts"] == len(receiver.bodies), "sent again"


@pytest.mark.parametrize("fault", sampled(["none", "die", "nonsense"], 1))
def test_a_program_gets_each_row_until_it_acknowledges_it(project: Project, site: Site, fault: str) -> None:
    library = Library(site, shelves=3, books=5)
    write_project(project, library, command(project, fault))
    running = project.start(nodes=1)
    if fault == "nonsense":
        assert until(lambda: any(o["error"] for o in sender_outputs(project).values()), 20)
        [error] = {o["error"] for o in sender_outputs(project).values() if o["error"]}
        assert error.startswith("answered 'stored', where")
        command(project)
        write_project(project, library, command(project))
    done = running.wait(60)
    for _ in range(3):
        if done.code == 3:
            done = project.start(nodes=1).wait(60)
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in (project.folder / "journal.jsonl").read_text().splitlines()]
    held = {change["id"]: change for change in lines}
    assert held.keys() == {id_ for (id_,) in project.query("SELECT id FROM rows")}
    if fault == "none":
        assert len(lines) == len(held)
    if fault == "die":  # acknowledged rows are not sent again: each life adds six at least
        assert len(lines) - len(held) <= len(held) / 6 + 1
        assert "the program ended (exit 5)" in project.logs()
    project.assert_clean(done)


@pytest.mark.sweep
def test_kills_lose_nothing_in_files_and_receiver(project: Project, site: Site, receiver: Receiver) -> None:
    rng = random.Random(3)
    library = Library(site, shelves=8, books=8, delay=0.15)
    write_project(project, library, http(receiver), concurrency=2)
    receiver.loses = 0.2
    running = project.start(nodes=2)
    until(lambda: project.children("appender") and project.children("node"))
    killed = 0
    for _ in range(4):
        time.sleep(rng.uniform(0.2, 0.8))
        for pid in project.children(rng.choice(["appender", "appender", "node"]))[:1]:
            os.kill(pid, signal.SIGKILL)
            killed += 1
    done = running.wait()
    for _ in range(3):
        if done.code == 3:
            done = project.start().wait()
    assert done.code == 0, done.err
    assert killed >= 2
    assert project.count_rows("entry", "book") == library.rows()
    assert receiver.values() == library.rows()
    assert_received(project, receiver)


@pytest.mark.sweep
def test_a_program_that_cannot_be_run_is_named(project: Project, site: Site) -> None:
    write_project(project, Library(site, shelves=1, books=1), "{type: command, run: [no-such-program-x]}")
    done = project.start(nodes=1).wait(60)
    assert done.code == 3
    assert "cannot run no-such-program-x: No such file or directory" in done.err
    assert not Path(project.folder / "journal.jsonl").exists()
