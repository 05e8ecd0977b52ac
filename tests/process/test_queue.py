"""queue.db is disposable: whatever happens to it, the run continues from the jobs table."""

import contextlib
import os
import random
import time
from pathlib import Path

import pytest

from .killed_crawl import start_crawl
from .library import Library
from .project import Project
from .site import Site
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(60)


def damage_queue(data: Path, damage: str) -> None:
    """Damage queue.db while processes have it open."""
    queue = data / "queue.db"
    match damage:
        case "deleted" | "directory" | "full directory":
            for path in data.glob("queue.db*"):
                if path.is_file():
                    path.unlink(missing_ok=True)
            if damage != "deleted":
                queue.mkdir(exist_ok=True)
            if damage == "full directory":
                (queue / "mine").write_text("keep this")
        case "emptied":
            os.truncate(queue, 0)
        case "cut":
            os.truncate(queue, max(1, queue.stat().st_size // 2 - 77))
        case "log cut":
            os.truncate(data / "queue.db-wal", 4000)
        case "garbage":
            with queue.open("r+b") as file:
                file.write(os.urandom(8192))


DAMAGES = ["deleted", "emptied", "garbage", "cut", "log cut", "directory", "full directory"]


ALWAYS_TESTED = ["garbage", "full directory"]
"""The other kinds occur in the test under load."""


@pytest.mark.parametrize(
    "damage", [h if h in ALWAYS_TESTED else pytest.param(h, marks=pytest.mark.sweep) for h in DAMAGES]
)
def test_queue_db_is_recreated(project: Project, site: Site, damage: str) -> None:
    library = Library(site, shelves=6, books=6, delay=0.15)
    project.write(library.defs(concurrency=4))
    running = start_crawl(project, site)
    damage_queue(project.data, damage)
    watch = Stopwatch()
    done = running.wait()
    assert done.code == 0, done.err
    assert watch.seconds() < 12, "doorbells are rung again soon"
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()


def crawl_under_damage(project: Project, site: Site, seed: int, seconds: float) -> None:
    """Damage of every kind, repeatedly, under load."""
    rng = random.Random(f"queue{seed}")
    library = Library(site, shelves=12, books=10, delay=0.03)
    project.write(library.defs(concurrency=8))
    running = start_crawl(project, site)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not running.exited:
        with contextlib.suppress(OSError):  # the file is being recreated
            damage_queue(project.data, rng.choice(DAMAGES))
        time.sleep(rng.uniform(0.05, 0.8))
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)
    for folder in project.data.glob("queue.db.aside-*"):
        assert [path.read_text() for path in folder.iterdir()] in ([], ["keep this"])


@pytest.mark.quick
def test_queue_db_damaged_under_load(project: Project, site: Site) -> None:
    crawl_under_damage(project, site, 0, 4.0)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 11))
def test_queue_db_damaged_under_load_sweep(project: Project, site: Site, seed: int) -> None:
    crawl_under_damage(project, site, seed, 12.0)


@pytest.mark.sweep
def test_a_damaged_queue_db_at_the_start_is_replaced(project: Project, site: Site) -> None:
    library = Library(site, shelves=1)
    project.write(library.defs())
    project.data.mkdir(mode=0o700)
    (project.data / "queue.db").write_bytes(b"this is no database" * 1000)
    Path(project.data, "queue.db-wal").write_bytes(b"neither is this")
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()
