"""Kills while files are downloaded: each file is there once, each row is exact, whatever dies."""

import random
import signal
import time

import pytest

from tests.sample import sampled

from .killed_crawl import kill, victims
from .papers import Papers
from .project import Project
from .site import Site
from .verified_crawl import assert_exact_sums

pytestmark = pytest.mark.timeout(170)

CASES = [
    (kind, seed, pages, each)
    for kind, seed, pages, each in [
        ("node", 1, 4, 30),
        ("supervisor", 2, 4, 30),
        ("several", 3, 4, 30),
        ("node", 4, 10, 100),
        ("supervisor", 5, 10, 100),
        ("any", 6, 10, 100),
        *(("several", seed, 10, 100) for seed in range(7, 17)),
    ]
]


@pytest.mark.quick
@pytest.mark.parametrize(("kind", "seed", "pages", "each"), sampled(CASES, 0, 2))
def test_files_and_rows_are_exact_after_kills(
    project: Project, site: Site, kind: str, seed: int, pages: int, each: int
) -> None:
    rng = random.Random(seed)
    papers = Papers(project, site, pages, each, delay=0.02)
    killed = 0
    for attempt in range(8):
        running = project.start("--backups", "1")
        while attempt < 4 and killed < 3 + 2 * attempt and not running.exited:
            time.sleep(rng.uniform(0.05, 0.6))
            if not running.exited:
                pids = victims(project, running, kind, rng)
                kill(*pids)
                killed += len(pids)
        done = running.wait(120)
        if done.code == 0:
            break
        assert done.code in (-signal.SIGKILL, 3), (done.code, done.err, project.logs()[-3000:])
        project.assert_no_process_left()
    project.assert_clean(done)
    assert killed
    papers.assert_exact()
    assert_exact_sums(project)
    requests = sum(site.count(f"/paper/{name}.pdf") for name in papers.contents)
    assert requests <= len(papers.contents) + 40 * killed, "only what was in progress is asked for again"
