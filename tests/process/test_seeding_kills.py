"""A supervisor killed at any moment of seeding: the next one reads the list on, and no URL is lost or doubled."""

import contextlib
import os
import random
import signal
import sqlite3
import time

import pytest

from .project import Project, until

LINES = 60_000
DEFS = """
locatorGroups:
  lists: {locators: [{name: bad, from: bad.txt}, {name: table, from: {file: seeds.csv}}]}
taskGroups: {lists: {page: {dataDef: page}}}
dataDefs: {page: {fields: {title: {selector: h1}}}}
hosts: {"127.0.0.1": {delay: 3600, robots: false}}
"""
STATE = "SELECT state, seeding IS NOT NULL FROM runs"


def state(project: Project) -> tuple[str, int] | None:
    """The state of the run, and whether a list is read; None before it has one."""
    with contextlib.suppress(sqlite3.OperationalError):
        return next(iter(project.query(STATE)), None)
    return None


@pytest.mark.sweep
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(4))
def test_at_any_moment_sweep(project: Project, seed: int) -> None:
    rng = random.Random(seed)
    (project.defs / "bad.txt").write_text("mailto:x@y\n" * 5_000)
    lines = (f"{number},http://127.0.0.1:9/item/{number}\n" for number in range(LINES))
    (project.defs / "seeds.csv").write_text("sku,url\n" + "".join(lines))
    project.write(DEFS)
    kills = resumed_behind_start = 0
    while kills < 6:
        running = project.start(nodes=1)
        assert until(lambda: state(project) in (("SEEDING", 1), ("READY", 0)), 30), running.err
        time.sleep(rng.uniform(0, 3))  # the start of the next supervisor is a part of it
        if state(project) == ("READY", 0):
            break
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        kills += 1
        resumed_behind_start += project.query("SELECT json_extract(seeding, '$.offset') > 0 FROM runs") == [(1,)]
    assert resumed_behind_start or not kills
    if running.exited:
        running = project.start(nodes=1)
    assert until(lambda: state(project) == ("READY", 0), 120), running.err
    assert project.query("SELECT count(*), count(DISTINCT url) FROM jobs WHERE origin = 'locator'") == [(LINES, LINES)]
    assert project.query(
        "SELECT count(*) FROM jobs WHERE origin = 'locator'"
        " AND json_extract(carried, '$[0].\"seed.sku\"') <> replace(url, 'http://127.0.0.1:9/item/', '')"
    ) == [(0,)]
    [(told,)] = project.query("SELECT count(*) FROM events WHERE kind = 'seed'")
    assert told <= 11 + 11 * kills
    running.send(signal.SIGTERM)
    running.wait()
    project.assert_integrity()
