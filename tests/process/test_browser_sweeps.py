"""A shop whose rows come by script, while browsers and nodes are killed: every row once, and nothing left."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

from .machine_group import MachineGroup
from .project import Project, until
from .rich_front import RichFront
from .shop_front import NEEDS_BROWSER, SANDBOX, assert_nothing_left, browsers
from .site import Site

pytestmark = [mark for mark in NEEDS_BROWSER if mark.name == "skipif"]


@pytest.mark.browser
@pytest.mark.timeout(240)
def test_every_kind_of_page_gives_its_rows(project: Project, site: Site) -> None:
    front = RichFront(2, site)
    project.write(front.defs())
    project.crawl(*SANDBOX, nodes=1, seconds=200)
    assert sorted(project.rows("item"), key=lambda row: row["name"]) == front.rows
    assert_nothing_left(project)


@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("pages", "kills", "seed"), [(8, 3, 5), (50, 20, 1)], ids=["sample", "full"])
def test_kills_lose_no_row_and_leave_nothing(project: Project, site: Site, pages: int, kills: int, seed: int) -> None:
    front = RichFront(pages, site)
    project.write(front.defs())
    # a kill costs each page of its browser an attempt
    running = project.start(*SANDBOX, "--set", "max_attempts=20", "--set", "browsers=2", nodes=2)
    chance, killed = random.Random(seed), 0
    while not running.exited and killed < kills:
        time.sleep(chance.uniform(0.5, 6.0))
        victims = browsers(project) if chance.random() < 0.75 else project.children("node")
        if victims and project.query("SELECT 1 FROM jobs WHERE state = 'DONE' LIMIT 1"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(victims), signal.SIGKILL)
                killed += 1
    assert running.wait(1000).code == 0, running.err[-3000:]
    assert killed == kills
    assert sorted(project.rows("item"), key=lambda row: row["name"]) == front.rows
    assert_nothing_left(project)
    project.assert_clean()


@pytest.mark.sweep
@pytest.mark.timeout(600)
def test_two_machines_share_the_pages(tmp_path: Path, database: str, site: Site, second_site: Site) -> None:
    front = RichFront(6, site, second_site)
    group = MachineGroup(tmp_path, database, front)
    try:
        group.start(*SANDBOX, "--set", "max_attempts=20")
        assert until(lambda: len(site.paths) + len(second_site.paths) > 20, 120), group.logs()
        for project in group.projects:
            for pid in browsers(project)[:1]:
                os.kill(pid, signal.SIGKILL)
        codes = [running.wait(400).code for running in group.running]
        leader = group.leader()
        assert codes == [0, 0], group.logs()
        assert leader is not None
        assert sorted(group.projects[leader].rows("item"), key=lambda row: row["name"]) == front.rows
        worked = dict(group.query("SELECT supervisor, sum(done) FROM nodes GROUP BY supervisor"))
        assert len(worked) == 2, worked
        for project in group.projects:
            assert_nothing_left(project)
    finally:
        group.kill_all()
