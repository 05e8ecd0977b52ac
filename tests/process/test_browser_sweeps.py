"""A shop whose rows come by script, while browsers and nodes are killed: every row once, and nothing left."""

import contextlib
import os
import random
import signal
import time

import pytest

from .project import Project
from .rich_front import rows_of, write_defs
from .shop_front import NEEDS_BROWSER, SANDBOX, assert_nothing_left, browsers
from .site import Site

pytestmark = [mark for mark in NEEDS_BROWSER if mark.name == "skipif"]


@pytest.mark.extended
@pytest.mark.timeout(240)
def test_every_kind_of_page_gives_its_rows(project: Project, site: Site) -> None:
    write_defs(project, site, 2)
    project.crawl(*SANDBOX, nodes=1, seconds=200)
    assert sorted(project.rows("item"), key=lambda row: row["name"]) == rows_of(2)
    assert_nothing_left(project)


@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("pages", "kills", "seed"), [(8, 3, 5), (50, 20, 1)], ids=["sample", "full"])
def test_kills_lose_no_row_and_leave_nothing(project: Project, site: Site, pages: int, kills: int, seed: int) -> None:
    write_defs(project, site, pages)
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
    assert sorted(project.rows("item"), key=lambda row: row["name"]) == rows_of(pages)
    assert_nothing_left(project)
    project.assert_clean()
