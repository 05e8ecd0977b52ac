"""Crawls whose processes are killed, and how their victims are chosen."""

import os
import random
import signal
import sqlite3
import time

from .library import Library
from .project import Project, Running, until
from .site import Site

KINDS = ["node", "appender", "supervisor", "template", "extraction", "any", "several"]


def library_of(project: Project, site: Site, delay: float = 0.05, *, kind: str = "") -> Library:
    """`kind`: the victims; where they may be template or extraction, books are extracted in extraction processes."""
    library = Library(site, shelves=8, books=8, delay=delay)
    defs = library.defs(concurrency=6, more="appenders: {rows: {type: csv}, lines: {type: jsonl}}\n")
    if kind in ("template", "extraction", "any", "several"):
        defs = defs.replace("selector: b, required", 'selector: "xpath://b", required')
    project.write(defs)
    return library


def start_crawl(project: Project, site: Site, *arguments: str, fetched: int = 6) -> Running:
    running = project.start(*arguments)
    assert until(lambda: len(site.paths) >= fetched or running.exited), running.err
    assert not running.exited, running.err
    return running


def kill(*pids: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def victims(project: Project, running: Running, kind: str, rng: random.Random) -> list[int]:
    children = [pid for name in ("node", "appender", "template", "extraction") for pid in project.children(name)]
    match kind:
        case "supervisor":
            return [running.pid]
        case "any":
            return [rng.choice([*children, running.pid])]
        case "several":
            all_pids = [*children, running.pid]
            return rng.sample(all_pids, rng.randint(1, len(all_pids)))
    pids = project.children(kind)
    return [rng.choice(pids)] if pids else []


def rerun_under_kills(
    project: Project, kind: str, rng: random.Random, *arguments: str, count: str, until_at_most: int
) -> None:
    """A run that is killed four times, each soon after `count`, a query, gives a random number; then it may end."""
    ended = "SELECT max(seq) FROM runs WHERE state = 'DONE'"
    before = _read_count(project, ended)
    for attempt in range(8):
        running, is_killed = project.start("--backups", "1", *arguments, nodes=2), False
        if attempt < 4:
            goal = rng.randint(1, until_at_most)
            until(lambda running=running, goal=goal: running.exited or _read_count(project, count) >= goal)
            time.sleep(rng.uniform(0, 0.3))
            if not running.exited:
                is_killed = True
                kill(*victims(project, running, kind, rng))
        done = running.wait()
        has_ended = is_killed and _read_count(project, ended) > before  # killed after its end: a start is another run
        if done.code == 0 or has_ended:
            break
        project.assert_no_process_left()
    assert done.code == 0 or has_ended, done.err
    project.assert_clean(done)


def _read_count(project: Project, query: str) -> int:
    try:
        return int(project.query(query)[0][0] or 0)
    except sqlite3.OperationalError:
        return 0  # the database is not created yet
