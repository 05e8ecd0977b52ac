"""Processes that die, hang or come back from the dead: no row is lost, none doubled, nobody stays."""

import os
import random
import shutil
import signal
import threading
import time

import pytest

from .house import House, Running, until
from .library import Library
from .site import Page, Site
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(120)

KINDS = ["node", "append", "supervisor", "any", "several"]


def library_of(house: House, site: Site, delay: float = 0.05) -> Library:
    library = Library(site, shelves=8, books=8, delay=delay)
    house.write(library.defs(concurrency=6, more="appenders: {rows: {type: csv}, lines: {type: jsonl}}\n"))
    return library


def under_way(house: House, site: Site, *arguments: str, fetched: int = 6) -> Running:
    running = house.start(*arguments)
    assert until(lambda: len(site.paths) >= fetched or running.over), running.err
    assert not running.over, running.err
    return running


def kill(*pids: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def victims(house: House, running: Running, kind: str, dice: random.Random) -> list[int]:
    children = house.children("node") + house.children("append")
    match kind:
        case "supervisor":
            return [running.pid]
        case "any":
            return [dice.choice([*children, running.pid])]
        case "several":
            all_of_them = [*children, running.pid]
            return dice.sample(all_of_them, dice.randint(1, len(all_of_them)))
    found = house.children(kind)
    return [dice.choice(found)] if found else []


def disturbed(house: House, site: Site, kind: str, seed: int) -> None:
    """Kill at random moments until the run was killed three times; then let it end. The rows are those of an
    undisturbed run."""
    dice = random.Random(f"{kind}{seed}")
    library = library_of(house, site, delay=0.03)
    for attempt in range(6):
        running = house.start("--backups", "1")
        if attempt < 3:
            for _ in range(1 if kind == "supervisor" else 2):
                time.sleep(dice.uniform(0.05, 1.6))
                if not running.over:
                    kill(*victims(house, running, kind, dice))
        done = running.wait()
        if done.code == 0:
            break
        assert done.code == -signal.SIGKILL, (done.code, done.err, house.logs()[-3000:])
        house.assert_nobody_left()
    assert done.code == 0
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows(), f"{kind} {seed}"
    lines = house.output("book.jsonl").read_bytes()
    assert lines.count(b"\n") == len(house.rows("book"))
    assert_counters(house)


def assert_events(house: House) -> None:
    """Events, replayed, give the states of the newest run and of its nodes."""
    [(run, state, stage)] = house.query("SELECT seq, state, stage FROM runs ORDER BY seq DESC LIMIT 1")
    told: dict[str, str] = {}
    ours = f"SELECT kind, text FROM events WHERE kind IN ('state', 'stage') AND run = {run} ORDER BY id"
    for kind, text in house.query(ours):
        who, _, what = text.partition(" ") if kind == "state" else ("stage", "", text)
        told[who] = what
    there = house.query(f"SELECT number, state, role FROM nodes WHERE run = {run}")
    nodes = {f"n{number}": f"{at} {role}" for number, at, role in there}
    assert told == {"run": state, "stage": stage, **nodes}


def assert_counters(house: House) -> None:
    """The counters kept by triggers are what counting gives."""
    assert_events(house)
    names = ("ready", "delayed", "taken", "done", "failed", "skipped", "incomplete")
    kept = house.query(f"SELECT id, {', '.join(names)} FROM sequences ORDER BY id")
    counted = house.query(
        "SELECT s.id, total(j.state = 'READY' AND j.not_before IS NULL), total(j.state = 'READY' AND j.not_before > 0),"
        + ", ".join(f"total(j.state = '{name.upper()}')" for name in names[2:])
        + " FROM sequences s LEFT JOIN jobs j ON j.sequence = s.id GROUP BY s.id ORDER BY s.id"
    )
    assert kept == counted


@pytest.mark.parametrize("kind", ["node", "append", "supervisor", "several"])
def test_random_kills_lose_and_double_nothing(house: House, site: Site, kind: str) -> None:
    disturbed(house, site, kind, 0)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 41))
@pytest.mark.parametrize("kind", KINDS)
def test_random_kills_sweep(house: House, site: Site, kind: str, seed: int) -> None:
    disturbed(house, site, kind, seed)


needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to kill at the n-th write")


def killed_at_write(house: House, site: Site, name: str, number: int) -> None:
    """Every thread of every process dies at its n-th write to a file: whatever was half written, the rows are exact."""
    library = library_of(house, site, delay=0.0)
    where = [] if name == "anything" else ["-P", str(house.data / name)]
    fate = ["-e", f"inject=write,pwrite64,fsync,fdatasync,ftruncate,rename:signal=KILL:when={number}"]
    tracer = ["strace", "-f", "-qq", "-o", "/dev/null", *where, *fate]
    running = house.start(tracer=tracer)
    running.wait(90)
    house.assert_nobody_left()
    done = house.start().wait()
    assert done.code == 0, (done.err, house.logs()[-3000:])
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    assert house.output("book.jsonl").read_bytes().count(b"\n") == len(house.rows("book"))
    assert_counters(house)


@needs_strace
@pytest.mark.parametrize(("name", "number"), [("crawl.db-wal", 37), ("pages.db-wal", 5), ("anything", 61)])
def test_kill_at_a_write(house: House, site: Site, name: str, number: int) -> None:
    killed_at_write(house, site, name, number)


@pytest.mark.sweep
@needs_strace
@pytest.mark.parametrize("number", [*range(1, 30), *range(30, 120, 7)])
@pytest.mark.parametrize("name", ["crawl.db-wal", "pages.db-wal", "anything"])
def test_kill_at_each_write_sweep(house: House, site: Site, name: str, number: int) -> None:
    killed_at_write(house, site, name, number)


def test_children_of_a_dead_supervisor_leave_within_three_seconds(house: House, site: Site) -> None:
    library = library_of(house, site, delay=0.2)
    running = under_way(house, site, "--backups", "1")
    watch = Stopwatch()
    kill(running.pid)
    running.wait()
    house.assert_nobody_left()
    assert watch.seconds() < 3
    done_then = house.query("SELECT count(*) FROM jobs WHERE state = 'DONE'")[0][0]
    time.sleep(0.3)
    asked = len(site.paths)
    time.sleep(0.3)
    assert len(site.paths) == asked, "nobody fetches any more"
    assert house.query("SELECT count(*) FROM jobs WHERE state = 'DONE'") == [(done_then,)]
    told = house.status()
    assert told["supervisor"] is None
    house.crawl("--backups", "1")
    assert house.counted("entry", "book") == library.rows()


def test_a_dead_node_is_noticed_within_a_second_and_its_backup_takes_over(house: House, site: Site) -> None:
    library = library_of(house, site, delay=0.25)
    running = under_way(house, site, "--backups", "1")
    told = {node["id"]: node for node in house.status()["nodes"]}
    watch = Stopwatch()
    kill(told["n1"]["pid"])
    assert until(lambda: house.query("SELECT state FROM nodes WHERE number = 1") == [("DEAD",)])
    assert watch.seconds() < 1
    assert house.query("SELECT reason FROM nodes WHERE number = 1") == [("died: signal 9",)]
    assert house.query("SELECT role, heart FROM nodes WHERE number = 1") == [("DEAD_RUNNER", "ASYSTOLE")]
    assert house.query("SELECT role FROM nodes WHERE number = 3") == [("RUNNER",)]
    assert until(lambda: len(house.query("SELECT 1 FROM nodes")) == 4)
    assert house.query("SELECT role, replaces FROM nodes WHERE number = 4") == [("BACKUP_RUNNER", 1)]
    done = running.wait()
    assert done.code == 0
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()


def test_a_stopped_node_is_taken_over_and_writes_nothing_when_it_wakes(house: House, site: Site) -> None:
    library = library_of(house, site, delay=0.5)
    running = under_way(house, site)
    holder = "SELECT pid, epoch FROM nodes WHERE epoch IN (SELECT node FROM jobs WHERE state = 'TAKEN')"
    assert until(lambda: house.query(holder))
    victim, epoch = house.query(holder)[0]
    watch, began = Stopwatch(), time.monotonic()
    os.kill(victim, signal.SIGSTOP)
    assert until(lambda: house.query(f"SELECT state FROM nodes WHERE epoch = {epoch}") == [("DEAD",)])
    assert watch.seconds() < 4.5
    assert time.monotonic() - began > 2
    try:
        os.kill(victim, signal.SIGCONT)
    except ProcessLookupError:
        pass  # it was fenced by SIGKILL, which a stopped process obeys too
    assert until(lambda: victim not in house.alive())
    done = running.wait()
    assert done.code == 0
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    assert_counters(house)


def test_a_node_that_hangs_at_the_very_end_does_not_keep_the_run(house: House, site: Site) -> None:
    """The node holds nothing when it is stopped, and the run ends before it is missed."""
    library = Library(site, shelves=1, books=4)
    hold = threading.Event()
    site["/book/0-1"] = Page("<b>ISBN 000-1</b>", hold=hold)
    house.write(library.defs())
    running = under_way(house, site, fetched=5)
    assert until(lambda: house.query("SELECT count(*) FROM jobs WHERE state = 'DONE'") == [(4,)])
    busy = "SELECT node FROM jobs WHERE state = 'TAKEN'"
    idle = f"SELECT pid FROM nodes WHERE epoch NOT IN ({busy}) AND state = 'DONE' AND heart = 'HEALTHY'"
    assert until(lambda: house.query(idle))
    [(victim,)] = house.query(idle)
    os.kill(victim, signal.SIGSTOP)
    hold.set()
    done = running.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()


def test_a_zombie_that_outlives_its_supervisor_writes_nothing(house: House, site: Site) -> None:
    """The node is stopped, its supervisor killed: the next supervisor fences it, and its late results count nothing."""
    library = library_of(house, site, delay=0.3)
    running = under_way(house, site)
    [(victim,)] = house.query("SELECT pid FROM nodes WHERE number = 1")
    os.kill(victim, signal.SIGSTOP)
    kill(running.pid)
    running.wait()
    again = house.start()
    assert until(lambda: victim not in house.alive() or again.over)
    assert victim not in house.alive()
    done = again.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()


def test_a_stopped_supervisor_goes_on_when_it_wakes(house: House, site: Site) -> None:
    library = library_of(house, site, delay=0.1)
    running = under_way(house, site)
    running.send(signal.SIGSTOP)
    time.sleep(4)
    running.send(signal.SIGCONT)
    done = running.wait()
    assert done.code == 0, done.err
    assert {node["state"] for node in done.summary["nodes"]} == {"TERMINATED"}, "nobody was taken for dead"
    assert house.counted("entry", "book") == library.rows()


def test_a_stopped_appender_is_replaced(house: House, site: Site) -> None:
    library = library_of(house, site, delay=0.25)
    running = under_way(house, site, fetched=2)
    [victim] = house.children("append")
    os.kill(victim, signal.SIGSTOP)
    assert until(lambda: house.children("append") not in ([victim], []), 10)
    done = running.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()


@pytest.mark.parametrize("fate", ["dies", "hangs"])
def test_an_appender_lost_at_the_very_end_is_replaced(house: House, site: Site, fate: str) -> None:
    library = Library(site, shelves=1, books=4)
    hold = threading.Event()
    site["/book/0-1"] = Page("<b>ISBN 000-1</b>", hold=hold)
    house.write(library.defs())
    running = under_way(house, site, fetched=5)
    [victim] = house.children("append")
    os.kill(victim, signal.SIGSTOP)
    hold.set()
    assert until(lambda: house.query("SELECT stage FROM runs") == [("STOPPING_APPENDER_GRACEFUL",)])
    if fate == "dies":
        kill(victim)
    done = running.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()


def test_a_node_that_dies_again_and_again_ends_the_run_with_3(house: House, site: Site) -> None:
    library = library_of(house, site, delay=0.4)
    running = house.start("--set", "host_concurrency=2", nodes=1)

    def all_over() -> bool:
        kill(*house.children("node"))
        time.sleep(0.1)
        return running.over

    assert until(all_over, 60)
    done = running.wait()
    assert done.code == 3, done.err
    assert done.summary["state"] == "FAILED"
    states = [node["state"] for node in done.summary["nodes"]]
    assert states == ["DEAD"] * 4 + ["FAILED"]
    assert "no node is left" in done.err
    house.assert_clean()
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


def test_a_page_that_kills_its_node_fails_alone(house: House, site: Site) -> None:
    """The job in whose hands nodes die is tried alone, and given up; all others are worked."""
    library = Library(site, shelves=2, books=4, delay=0.02)
    house.write(library.defs(concurrency=6))
    poison = site.url("/book/1-2")
    site["/book/1-2"] = Page("<b>ISBN 001-2</b>", delay=30)
    running = house.start("--set", "host_concurrency=6", nodes=2)

    def kill_its_holder() -> bool:
        for (pid,) in house.query(
            f"SELECT n.pid FROM jobs j JOIN nodes n ON n.epoch = j.node WHERE j.url = '{poison}' AND j.state = 'TAKEN'"
        ):
            time.sleep(0.3)
            kill(pid)
            time.sleep(0.2)
        return running.over

    assert until(lambda: (house.data / "crawl.db").exists() and site.times("/book/1-2"))
    assert until(kill_its_holder, 60)
    done = running.wait()
    assert done.code == 1, done.err
    job = house.query(f"SELECT state, crashes FROM jobs WHERE url = '{poison}'")
    assert job == [("FAILED", 3)]
    expected = library.rows()
    del expected["book", "ISBN 001-2", poison]
    assert house.counted("entry", "book") == expected
