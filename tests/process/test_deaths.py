"""Processes that die, hang or wake after takeover: no row is lost or doubled, no process is left."""

import os
import random
import shutil
import signal
import threading
import time

import pytest

from tests.sample import sampled

from .killed_crawl import KINDS, kill, library_of, start_crawl, victims
from .library import Library
from .project import Project, until
from .site import Page, Site
from .stopwatch import Stopwatch
from .verified_crawl import assert_exact_sums

pytestmark = pytest.mark.timeout(120)


def crawl_under_kills(project: Project, site: Site, kind: str, seed: int) -> None:
    """Kill at random moments in three runs, then let a run end: the rows equal those of an undisturbed run."""
    rng = random.Random(f"{kind}{seed}")
    library = library_of(project, site, delay=0.03, kind=kind)
    for attempt in range(6):
        running = project.start("--backups", "1")
        if attempt < 3:
            for _ in range(1 if kind == "supervisor" else 2):
                time.sleep(rng.uniform(0.05, 1.6))
                if not running.exited:
                    kill(*victims(project, running, kind, rng))
        done = running.wait()
        if done.code == 0:
            break
        assert done.code == -signal.SIGKILL, (done.code, done.err, project.logs()[-3000:])
        project.assert_no_process_left()
    assert done.code == 0
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows(), f"{kind} {seed}"
    lines = project.output("book.jsonl").read_bytes()
    assert lines.count(b"\n") == len(project.rows("book"))
    assert_counters(project)
    assert_exact_sums(project)


def assert_events(project: Project) -> None:
    """Replaying the events yields the states of the newest run and of its nodes."""
    [(run, state, stage)] = project.query("SELECT seq, state, stage FROM runs ORDER BY seq DESC LIMIT 1")
    replayed: dict[str, str] = {}
    query = f"SELECT kind, text FROM events WHERE kind IN ('state', 'stage') AND run = {run} ORDER BY id"
    for kind, text in project.query(query):
        subject, _, value = text.partition(" ") if kind == "state" else ("stage", "", text)
        replayed[subject] = value
    rows = project.query(f"SELECT number, state, role FROM nodes WHERE run = {run}")
    nodes = {f"n{number}": f"{at} {role}" for number, at, role in rows}
    assert replayed == {"run": state, "stage": stage, **nodes}


def assert_counters(project: Project) -> None:
    """The counters kept by triggers equal a count of the jobs."""
    assert_events(project)
    names = ("ready", "delayed", "taken", "done", "failed", "skipped", "incomplete")
    stored = project.query(f"SELECT id, {', '.join(names)} FROM sequences ORDER BY id")
    counted = project.query(
        "SELECT s.id, total(j.state = 'READY' AND j.not_before IS NULL), total(j.state = 'READY' AND j.not_before > 0),"
        + ", ".join(f"total(j.state = '{name.upper()}')" for name in names[2:])
        + " FROM sequences s LEFT JOIN jobs j ON j.sequence = s.id GROUP BY s.id ORDER BY s.id"
    )
    assert stored == counted


@pytest.mark.quick
@pytest.mark.parametrize(
    "kind", sampled(["node", "appender", "supervisor", "template", "extraction", "several"], 0, 3, 5)
)
def test_random_kills_lose_and_double_nothing(project: Project, site: Site, kind: str) -> None:
    crawl_under_kills(project, site, kind, 0)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 41))
@pytest.mark.parametrize("kind", KINDS)
def test_random_kills_sweep(project: Project, site: Site, kind: str, seed: int) -> None:
    crawl_under_kills(project, site, kind, seed)


needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to kill at the n-th write")


def killed_at_write(project: Project, site: Site, name: str, number: int) -> None:
    """Kill each process at its n-th write to a file: whatever is half written, the rows are exact."""
    library = library_of(project, site, delay=0.0)
    only_file = [] if name == "anything" else ["-P", str(project.data / name)]
    inject = ["-e", f"inject=write,pwrite64,fsync,fdatasync,ftruncate,rename:signal=KILL:when={number}"]
    tracer = ["strace", "-f", "-qq", "-o", "/dev/null", *only_file, *inject]
    running = project.start(tracer=tracer)
    running.wait(90)
    project.assert_no_process_left()
    done = project.start().wait()
    assert done.code == 0, (done.err, project.logs()[-3000:])
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    assert project.output("book.jsonl").read_bytes().count(b"\n") == len(project.rows("book"))
    assert_counters(project)


@pytest.mark.quick
@needs_strace
@pytest.mark.parametrize(("name", "number"), [("crawl.db-wal", 37), ("pages.db-wal", 5), ("anything", 61)])
def test_kill_at_a_write(project: Project, site: Site, name: str, number: int) -> None:
    killed_at_write(project, site, name, number)


@pytest.mark.sweep
@needs_strace
@pytest.mark.parametrize("number", [*range(1, 30), *range(30, 120, 7)])
@pytest.mark.parametrize("name", ["crawl.db-wal", "pages.db-wal", "anything"])
def test_kill_at_each_write_sweep(project: Project, site: Site, name: str, number: int) -> None:
    killed_at_write(project, site, name, number)


@pytest.mark.quick
def test_children_of_a_dead_supervisor_exit_within_three_seconds(project: Project, site: Site) -> None:
    library = library_of(project, site, delay=0.2)
    running = start_crawl(project, site, "--backups", "1")
    watch = Stopwatch()
    kill(running.pid)
    running.wait()
    project.assert_no_process_left()
    assert watch.seconds() < 3
    done_then = project.query("SELECT count(*) FROM jobs WHERE state = 'DONE'")[0][0]
    time.sleep(0.3)
    fetched = len(site.paths)
    time.sleep(0.3)
    assert len(site.paths) == fetched, "no process fetches any more"
    assert project.query("SELECT count(*) FROM jobs WHERE state = 'DONE'") == [(done_then,)]
    status = project.status()
    assert status["supervisor"] is None
    project.crawl("--backups", "1")
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.quick
def test_a_dead_node_is_detected_within_a_second_and_its_backup_takes_over(project: Project, site: Site) -> None:
    library = library_of(project, site, delay=0.25)
    running = start_crawl(project, site, "--backups", "1")
    nodes = {node["id"]: node for node in project.status()["nodes"]}
    watch = Stopwatch()
    kill(nodes["n1"]["pid"])
    assert until(lambda: project.query("SELECT state FROM nodes WHERE number = 1") == [("DEAD",)])
    assert watch.seconds() < 1
    assert project.query("SELECT reason FROM nodes WHERE number = 1") == [("died: signal 9",)]
    assert project.query("SELECT role, heart FROM nodes WHERE number = 1") == [("DEAD_RUNNER", "ASYSTOLE")]
    assert project.query("SELECT role FROM nodes WHERE number = 3") == [("RUNNER",)]
    assert until(lambda: len(project.query("SELECT 1 FROM nodes")) == 4)
    assert project.query("SELECT role, replaces FROM nodes WHERE number = 4") == [("BACKUP_RUNNER", 1)]
    done = running.wait()
    assert done.code == 0
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.quick
def test_a_stopped_node_is_taken_over_and_writes_nothing_when_continued(project: Project, site: Site) -> None:
    library = library_of(project, site, delay=0.5)
    running = start_crawl(project, site)
    holder = "SELECT pid, epoch FROM nodes WHERE epoch IN (SELECT node FROM jobs WHERE state = 'TAKEN')"
    assert until(lambda: project.query(holder))
    victim, epoch = project.query(holder)[0]
    watch, started_at = Stopwatch(), time.monotonic()
    os.kill(victim, signal.SIGSTOP)
    assert until(lambda: project.query(f"SELECT state FROM nodes WHERE epoch = {epoch}") == [("DEAD",)])
    assert watch.seconds() < 4.5
    assert time.monotonic() - started_at > 2
    try:
        os.kill(victim, signal.SIGCONT)
    except ProcessLookupError:
        pass  # it was fenced with SIGKILL, which also ends a stopped process
    assert until(lambda: victim not in project.live_processes())
    done = running.wait()
    assert done.code == 0
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    assert_counters(project)


@pytest.mark.sweep
def test_a_node_that_hangs_at_the_very_end_does_not_delay_the_run(project: Project, site: Site) -> None:
    """The node holds no job when it is stopped, and the run ends before its silence is detected."""
    library = Library(site, shelves=1, books=4)
    hold = threading.Event()
    site["/book/0-1"] = Page("<b>ISBN 000-1</b>", hold=hold)
    project.write(library.defs())
    running = start_crawl(project, site, fetched=5)
    assert until(lambda: project.query("SELECT count(*) FROM jobs WHERE state = 'DONE'") == [(4,)])
    busy = "SELECT node FROM jobs WHERE state = 'TAKEN'"
    idle = f"SELECT pid FROM nodes WHERE epoch NOT IN ({busy}) AND state = 'DONE' AND heart = 'HEALTHY'"
    assert until(lambda: project.query(idle))
    [(victim,)] = project.query(idle)
    os.kill(victim, signal.SIGSTOP)
    hold.set()
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_a_zombie_that_outlives_its_supervisor_writes_nothing(project: Project, site: Site) -> None:
    """The node is stopped, its supervisor killed: the next supervisor fences it, its late results change nothing."""
    library = library_of(project, site, delay=0.3)
    running = start_crawl(project, site)
    [(victim,)] = project.query("SELECT pid FROM nodes WHERE number = 1")
    os.kill(victim, signal.SIGSTOP)
    kill(running.pid)
    running.wait()
    again = project.start()
    assert until(lambda: victim not in project.live_processes() or again.exited)
    assert victim not in project.live_processes()
    done = again.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_a_stopped_supervisor_resumes_when_continued(project: Project, site: Site) -> None:
    library = library_of(project, site, delay=0.1)
    running = start_crawl(project, site)
    running.send(signal.SIGSTOP)
    time.sleep(4)
    running.send(signal.SIGCONT)
    done = running.wait()
    assert done.code == 0, done.err
    assert {node["state"] for node in done.summary["nodes"]} == {"TERMINATED"}, "no node was declared dead"
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_a_stopped_appender_is_replaced(project: Project, site: Site) -> None:
    library = library_of(project, site, delay=0.25)
    running = start_crawl(project, site, fetched=2)
    [victim] = project.children("appender")
    os.kill(victim, signal.SIGSTOP)
    assert until(lambda: project.children("appender") not in ([victim], []), 10)
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()


def test_a_template_that_hangs_is_replaced_and_the_crawl_goes_on(project: Project, site: Site) -> None:
    """The node that dies meanwhile is started by the next template."""
    library = library_of(project, site, delay=0.25)
    running = project.start(nodes=1)
    assert until(lambda: len(site.paths) > 2)
    [template], [node] = project.children("template"), project.children("node")
    os.kill(template, signal.SIGSTOP)
    kill(node)
    watch = Stopwatch()
    assert until(lambda: project.children("node") not in ([node], []), 30)
    assert watch.seconds() < 15
    assert project.children("template") not in ([template], [])
    done = running.wait()
    assert done.code == 0, done.err
    assert "hangs; it is replaced" in done.err + project.logs()
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.quick
@pytest.mark.parametrize("how", sampled(["dies", "hangs"], 0))
def test_an_appender_lost_at_the_very_end_is_replaced(project: Project, site: Site, how: str) -> None:
    library = Library(site, shelves=1, books=4)
    hold = threading.Event()
    site["/book/0-1"] = Page("<b>ISBN 000-1</b>", hold=hold)
    project.write(library.defs())
    running = start_crawl(project, site, fetched=5)
    [victim] = project.children("appender")
    os.kill(victim, signal.SIGSTOP)
    hold.set()
    assert until(lambda: project.query("SELECT stage FROM runs") == [("STOPPING_APPENDER_GRACEFUL",)])
    if how == "dies":
        kill(victim)
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.quick
def test_a_crash_loop_ends_the_run_with_exit_3(project: Project, site: Site) -> None:
    """No page is fetched meanwhile: one whose nodes die would fail instead."""
    library = library_of(project, site, delay=0.4)
    project.nodes = 1
    running = start_crawl(project, site, "--set", "host_concurrency=2")
    assert project.run_with_data("pause").code == 0
    assert until(lambda: project.query("SELECT count(*) FROM jobs WHERE state = 'TAKEN'") == [(0,)])

    def kill_until_exit() -> bool:
        kill(*project.children("node"))
        time.sleep(0.1)
        return running.exited

    assert until(kill_until_exit, 60)
    done = running.wait()
    assert done.code == 3, done.err
    assert done.summary["state"] == "FAILED"
    states = [node["state"] for node in done.summary["nodes"]]
    assert states == ["DEAD"] * 4 + ["FAILED"]
    assert "no node is left" in done.err
    project.assert_clean()
    running = project.start()
    assert until(lambda: project.run_with_data("resume").code == 0)
    project.assert_clean(running.wait())
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.quick
def test_a_page_that_kills_its_node_fails_alone(project: Project, site: Site) -> None:
    """A job whose nodes die is retried alone, then fails; all other jobs are done."""
    library = Library(site, shelves=2, books=4, delay=0.02)
    project.write(library.defs(concurrency=6))
    poison = site.url("/book/1-2")
    site["/book/1-2"] = Page("<b>ISBN 001-2</b>", delay=30)
    running = project.start("--set", "host_concurrency=6", nodes=2)

    def kill_its_holder() -> bool:
        for (pid,) in project.query(
            f"SELECT n.pid FROM jobs j JOIN nodes n ON n.epoch = j.node WHERE j.url = '{poison}' AND j.state = 'TAKEN'"
        ):
            time.sleep(0.3)
            kill(pid)
            time.sleep(0.2)
        return running.exited

    assert until(lambda: (project.data / "crawl.db").exists() and site.count("/book/1-2"))
    assert until(kill_its_holder, 60)
    done = running.wait()
    assert done.code == 1, done.err
    job = project.query(f"SELECT state, crashes FROM jobs WHERE url = '{poison}'")
    assert job == [("FAILED", 3)]
    expected = library.rows()
    del expected["book", "ISBN 001-2", poison]
    assert project.count_rows("entry", "book") == expected
