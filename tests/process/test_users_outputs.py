"""Plugin encoders and appenders in a crawl: what fails, hangs, ends, leaks or prints delays its own output alone."""

import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .library import Library
from .project import Project, parent_of, until
from .site import Site

pytestmark = pytest.mark.timeout(180)

PLUGIN = '''
"""Outputs with a fault."""

import json, os, pathlib, sys, time

FAULT, TIMES = "none", 3

def fail(folder):
    """The fault, for the first few calls; for ever if TIMES is 0."""
    count = pathlib.Path(folder, FAULT)
    calls = int(count.read_text()) if count.exists() else 0
    if FAULT == "none" or (TIMES and calls >= TIMES):
        return
    count.write_text(str(calls + 1))
    if FAULT == "raise":
        raise ValueError("no room left")
    if FAULT == "hang":
        time.sleep(3600)
    if FAULT == "exit":
        os._exit(7)
    if FAULT == "sysexit":
        sys.exit("bye")
    if FAULT == "leak":
        kept = []
        while True:
            kept.append(bytearray(50_000_000))
    if FAULT == "wait":
        while not pathlib.Path(folder, "go").exists():
            time.sleep(0.02)

class Journal:
    def __init__(self, folder):
        self.folder = folder
        self.file = open(folder + "/journal.jsonl", "a")
    def append(self, rows):
        print("x" * 100_000)
        sys.__stdout__.write("\\0" * 1000)
        for row in rows:
            self.file.write(json.dumps(row) + "\\n")
        self.file.flush()
        fail(self.folder)

class Tabs:
    suffix = "tsv"
    def __init__(self, folder):
        self.folder = folder
    def header(self, columns):
        os.write(1, b"header")
        return "\\t".join(columns).encode() + b"\\n"
    def encode(self, rows):
        print(rows)
        fail(self.folder)
        return "".join("\\t".join(row.values()) + "\\n" for row in rows).encode()
'''
APPENDERS = """\
appenders:
  rows: {type: csv}
  own: {type: out.CLASS, dataDefs: [book], options: {folder: FOLDER}, limit: LIMIT}
"""


def write_project(
    project: Project,
    library: Library,
    class_: str,
    fault: str,
    *,
    times: int = 3,
    limit: float = 1,
    concurrency: int = 16,
) -> None:
    (project.defs / "plugins").mkdir(exist_ok=True)
    text = PLUGIN.replace('"none", 3', f'"{fault}", {times}')
    (project.defs / "plugins" / "out.py").write_text(text, "utf-8")
    more = APPENDERS.replace("CLASS", class_).replace("FOLDER", str(project.folder)).replace("LIMIT", str(limit))
    project.write(library.defs(concurrency=concurrency, more=more))


def assert_exact(project: Project, library: Library, class_: str) -> None:
    """The CSV and the plugin output have the same rows; those of the appender may have come more than once."""
    assert project.count_rows("entry", "book") == library.rows()
    expected = [tuple(row.values()) for row in project.rows("book")]
    if class_ == "Tabs":
        header, *lines = project.output("book.tsv").read_text().splitlines()
        assert header == "isbn\tpath"
        assert [tuple(line.split("\t")) for line in lines] == expected
    else:
        assert list(journal_rows(project).values()) == expected


def journal_rows(project: Project) -> dict[int, tuple[str, ...]]:
    """By id, in order of their first delivery."""
    rows: dict[int, tuple[str, ...]] = {}
    for line in (project.folder / "journal.jsonl").read_text().splitlines():
        change = json.loads(line)
        assert rows.setdefault(change["id"], tuple(change["row"].values())) == tuple(change["row"].values())
    return rows


def class_processes(project: Project) -> list[int]:
    """Pids of the processes of plugin classes."""
    return project.children("output")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("class_", "fault"),
    [
        *(("Tabs", fault) for fault in ("none", "hang")),
        ("Journal", "exit"),
        *(pytest.param("Tabs", fault, marks=pytest.mark.sweep) for fault in ("raise", "exit", "sysexit", "leak")),
        *(
            pytest.param("Journal", fault, marks=pytest.mark.sweep)
            for fault in ("none", "raise", "hang", "leak", "sysexit")
        ),
    ],
)
def test_a_class_with_a_fault_delays_its_own_output_alone(
    project: Project, site: Site, class_: str, fault: str
) -> None:
    library = Library(site, shelves=3, books=5)
    write_project(project, library, class_, fault, times=2)
    done = project.crawl("--set", "parse_memory=150000000", nodes=1)
    assert_exact(project, library, class_)
    outputs = {output["name"]: output for output in project.status()["appenders"]}
    assert outputs["own/book"]["error"] is None
    assert {output["backlog"] for output in outputs.values()} == {0}
    assert {output["rows"] for output in done.summary["appenders"]} == {0, 15}  # `nothing` gives no row
    assert outputs["own/book"]["rows"] == 15
    texts = {
        "raise": "ValueError: no room left (plugins/out.py:16)", "hang": "longer than its limit of 1 s",
        "exit": "its process ended (exit 7)", "sysexit": "SystemExit: bye", "leak": "MemoryError",
    }  # fmt: skip
    if fault in texts:
        assert (project.folder / fault).read_text() == "2"
        assert texts[fault] in project.logs()


def test_other_outputs_are_complete_while_one_hangs(project: Project, site: Site) -> None:
    library = Library(site, shelves=3, books=5)
    write_project(project, library, "Journal", "wait", limit=100)
    running = project.start(nodes=1)
    assert until(lambda: (project.folder / "wait").exists())
    assert until(lambda: project.output("book.csv").exists() and len(project.rows("book")) == 15)
    assert until(lambda: len(project.rows("entry")) == 15)
    assert not running.exited

    def backlog(name: str) -> int:
        return int(next(o["backlog"] for o in project.status()["appenders"] if o["name"] == name))

    assert until(lambda: backlog("rows/book") == 0)  # the rows stand in the file before its cursor is committed
    assert backlog("own/book") > 0
    (project.folder / "go").touch()
    assert running.wait().code == 0
    assert_exact(project, library, "Journal")


@pytest.mark.sweep
@pytest.mark.parametrize("class_", ["Tabs", pytest.param("Journal", marks=pytest.mark.sweep)])
def test_a_run_whose_class_never_works_ends_and_the_next_run_writes_its_rows(
    project: Project, site: Site, class_: str
) -> None:
    library = Library(site, shelves=2, books=3)
    write_project(project, library, class_, "raise", times=0)
    running = project.start(nodes=1)
    own: dict[str, Any] = {}

    def is_failing() -> bool:
        own.update(next((o for o in project.status()["appenders"] if o["name"] == "own/book"), {}))
        return bool(own.get("error"))

    assert until(is_failing)
    assert own["error"] == "ValueError: no room left (plugins/out.py:16)"
    done = running.wait()
    assert done.code == 3
    assert "the output own/book lacks rows: ValueError: no room left" in done.err
    assert project.count_rows("entry", "book") == library.rows()
    assert [e for e in project.query("SELECT text FROM events WHERE level = 'ERROR'") if "no room left" in e[0]]
    write_project(project, library, class_, "none")
    project.crawl(nodes=1)
    assert_exact(project, library, class_)
    assert next(o for o in project.status()["appenders"] if o["name"] == "own/book")["error"] is None


@pytest.mark.sweep
@pytest.mark.parametrize("class_", [pytest.param("Tabs", marks=pytest.mark.sweep), "Journal"])
def test_kills_of_the_class_and_of_the_appender_lose_and_double_nothing(
    project: Project, site: Site, class_: str
) -> None:
    rng = random.Random(class_)
    library = Library(site, shelves=8, books=8, delay=0.2)
    write_project(project, library, class_, "none", concurrency=2)
    running = project.start(nodes=2)
    killed, appenders = 0, 3  # five crashes in a row would end the run
    while killed < 10 and not running.exited:
        time.sleep(rng.uniform(0.05, 0.4))
        victims = class_processes(project)
        if appenders and rng.random() < 0.3:
            victims, appenders = project.children("appender"), appenders - 1
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                continue
    done = running.wait()
    assert killed >= 5
    if done.code == 3:  # killed to the end of the run: the next one writes the rest
        assert "own/book lacks rows" in done.err
        done = project.start().wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert_exact(project, library, class_)


@pytest.mark.sweep
def test_new_code_replaces_the_process_and_rebuilds_the_files_of_an_encoder(project: Project, site: Site) -> None:
    library = Library(site, shelves=6, books=6, delay=0.2)
    write_project(project, library, "Tabs", "none")
    running = project.start(nodes=1)
    path = project.output("book.tsv")
    assert until(lambda: path.exists() and path.read_text().count("\n") > 3)
    plugin = project.defs / "plugins" / "out.py"
    plugin.write_text(plugin.read_text().replace('"\\t".join(row.values())', '"|".join(row.values())'), "utf-8")
    assert running.wait().code == 0
    lines = path.read_text().splitlines()[1:]
    assert len(lines) == 36
    assert Counter(line.count("|") for line in lines) == {1: 36}


def test_the_process_of_a_class_ends_with_the_appender_and_is_not_killed_by_a_drain(
    project: Project, site: Site
) -> None:
    library = Library(site, shelves=2, books=3)
    write_project(project, library, "Journal", "wait", limit=100)
    running = project.start(nodes=1)
    assert until(lambda: (project.folder / "wait").exists())
    [host] = class_processes(project)
    [appender] = project.children("appender")
    assert [parent_of(host)] == project.children("template")
    if Path(f"/proc/{host}/oom_score_adj").exists():
        assert Path(f"/proc/{host}/oom_score_adj").read_text().strip() == "1000"
    running.send(signal.SIGTERM)
    time.sleep(0.5)
    assert class_processes(project) == [host]
    os.kill(appender, signal.SIGKILL)
    assert until(lambda: host not in class_processes(project), 5)
    (project.folder / "go").touch()
    running.wait()


@pytest.mark.sweep
def test_rows_that_new_defs_replace_are_deleted_and_delivered_again(project: Project, site: Site) -> None:
    """In order of the change: the deletion of a row comes before the row that takes its place."""
    library = Library(site, shelves=3, books=5)
    write_project(project, library, "Journal", "none")
    project.crawl(nodes=1)
    text = (project.defs / "crawl.yml").read_text()
    project.write(text.replace('path: {value: "%{document.url}"}', 'path: {value: "new"}'))
    done = project.run_command("extract", "--defs", str(project.defs), "--data", str(project.data), seconds=40)
    assert done.code == 0, done.err
    held: dict[int, str] = {}
    changes = [json.loads(line) for line in (project.folder / "journal.jsonl").read_text().splitlines()]
    for change in changes:
        if change.get("deleted"):
            assert held.pop(change["id"]) != "new"
        else:
            held[change["id"]] = change["row"]["path"]
    assert list(held.values()) == ["new"] * 15
    assert sum(bool(change.get("deleted")) for change in changes) == 15
    stored = project.query("SELECT r.id FROM rows r JOIN data_defs d ON d.id = r.data_def WHERE d.name = 'book'")
    assert held.keys() == {id_ for (id_,) in stored}
    assert project.query("SELECT count(*) FROM withdrawals") == [(0,)]
    assert next(o for o in project.status()["appenders"] if o["name"] == "own/book")["rows"] == 15


@pytest.mark.sweep
def test_rows_of_a_retried_job_are_deleted(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=3)
    write_project(project, library, "Journal", "none")
    project.crawl(nodes=1)
    before = journal_rows(project)
    retried = project.run_with_data("retry", "--state", "done", "--match", "/book/0-1")
    assert retried.code == 0, retried.err
    project.crawl(nodes=1)
    changes = [json.loads(line) for line in (project.folder / "journal.jsonl").read_text().splitlines()]
    [deleted] = [change["id"] for change in changes if change.get("deleted")]
    assert before[deleted][0] == "ISBN 000-1"
    assert changes[-1]["row"]["isbn"] == "ISBN 000-1"
