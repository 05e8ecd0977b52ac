"""queue.db is disposable: whatever becomes of it, the jobs table knows, and the run goes on."""

import os
import time
from pathlib import Path

import pytest

from .house import House
from .library import Library
from .site import Site
from .test_deaths import under_way

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("harm", ["deleted", "emptied", "garbage"])
def test_queue_db_heals(house: House, site: Site, harm: str) -> None:
    library = Library(site, shelves=6, books=6, delay=0.15)
    house.write(library.defs(concurrency=4))
    running = under_way(house, site)
    queue = house.data / "queue.db"
    if harm == "deleted":
        for path in house.data.glob("queue.db*"):
            path.unlink()
    elif harm == "emptied":
        os.truncate(queue, 0)
    else:
        with queue.open("r+b") as file:
            file.write(os.urandom(8192))
    began = time.monotonic()
    done = running.wait(30)
    assert done.code == 0, done.err
    assert time.monotonic() - began < 12, "doorbells came back soon"
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()


def test_queue_db_of_nonsense_at_the_start_is_thrown_away(house: House, site: Site) -> None:
    library = Library(site, shelves=1)
    house.write(library.defs())
    house.data.mkdir(mode=0o700)
    (house.data / "queue.db").write_bytes(b"this is no database" * 1000)
    Path(house.data, "queue.db-wal").write_bytes(b"nor this")
    house.crawl()
    assert house.counted("entry", "book") == library.rows()
