"""queue.db is disposable: whatever becomes of it, the jobs table knows, and the run goes on."""

import contextlib
import os
import random
import time
from pathlib import Path

import pytest

from .house import House
from .library import Library
from .site import Site
from .stopwatch import Stopwatch
from .test_deaths import under_way

pytestmark = pytest.mark.timeout(60)


def spoil(data: Path, harm: str) -> None:
    """Harm queue.db while processes have it open."""
    queue = data / "queue.db"
    match harm:
        case "deleted" | "directory" | "full directory":
            for path in data.glob("queue.db*"):
                if path.is_file():
                    path.unlink(missing_ok=True)
            if harm != "deleted":
                queue.mkdir(exist_ok=True)
            if harm == "full directory":
                (queue / "mine").write_text("not to be lost")
        case "emptied":
            os.truncate(queue, 0)
        case "cut":
            os.truncate(queue, max(1, queue.stat().st_size // 2 - 77))
        case "log cut":
            os.truncate(data / "queue.db-wal", 4000)
        case "garbage":
            with queue.open("r+b") as file:
                file.write(os.urandom(8192))


HARMS = ["deleted", "emptied", "garbage", "cut", "log cut", "directory", "full directory"]


OFTEN = ["deleted", "emptied", "garbage", "full directory"]
"""The others are met in CI under load."""


@pytest.mark.parametrize("harm", [h if h in OFTEN else pytest.param(h, marks=pytest.mark.sweep) for h in HARMS])
def test_queue_db_heals(house: House, site: Site, harm: str) -> None:
    library = Library(site, shelves=6, books=6, delay=0.15)
    house.write(library.defs(concurrency=4))
    running = under_way(house, site)
    spoil(house.data, harm)
    watch = Stopwatch()
    done = running.wait()
    assert done.code == 0, done.err
    assert watch.seconds() < 12, "doorbells came back soon"
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()


def harmed(house: House, site: Site, seed: int, seconds: float) -> None:
    """Harm of every kind, again and again, under load."""
    dice = random.Random(f"queue{seed}")
    library = Library(site, shelves=12, books=10, delay=0.03)
    house.write(library.defs(concurrency=8))
    running = under_way(house, site)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not running.over:
        with contextlib.suppress(OSError):  # what is to be harmed is being made anew
            spoil(house.data, dice.choice(HARMS))
        time.sleep(dice.uniform(0.05, 0.8))
    done = running.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)
    for folder in house.data.glob("queue.db.aside-*"):
        assert [path.read_text() for path in folder.iterdir()] in ([], ["not to be lost"])


def test_queue_db_harmed_under_load(house: House, site: Site) -> None:
    harmed(house, site, 0, 4.0)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 11))
def test_queue_db_harmed_under_load_sweep(house: House, site: Site, seed: int) -> None:
    harmed(house, site, seed, 12.0)


def test_queue_db_of_nonsense_at_the_start_is_thrown_away(house: House, site: Site) -> None:
    library = Library(site, shelves=1)
    house.write(library.defs())
    house.data.mkdir(mode=0o700)
    (house.data / "queue.db").write_bytes(b"this is no database" * 1000)
    Path(house.data, "queue.db-wal").write_bytes(b"nor this")
    house.crawl()
    assert house.counted("entry", "book") == library.rows()
