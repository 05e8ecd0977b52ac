"""Damaged, foreign or lost databases: exit 3, the file named, nothing changed."""

import os
import random
import signal
import sqlite3
from collections.abc import Callable

import pytest

from .house import House, until
from .library import Library
from .site import Site
from .test_data_dir import crawled, standing

pytestmark = pytest.mark.timeout(60)


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda raw: random.Random(1).randbytes(len(raw)),
    "header": lambda raw: bytes(100) + raw[100:],
    "cut": lambda raw: raw[: len(raw) // 3 + 7],
    "text": lambda raw: b"hello, I am a shopping list\n" * 50,
}


@pytest.mark.parametrize("name", ["crawl.db", "pages.db"])
def test_a_corrupt_database_is_named_and_left_alone(house: House, site: Site, name: str) -> None:
    crawled(house, site)
    path = house.data / name
    with sqlite3.connect(path) as db:  # what lies in a log beside the file would mend it
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    good = path.read_bytes()
    for harm, spoil in HARMS.items():
        path.write_bytes(spoil(good))
        before = standing(house.data)
        done = house.start("--fresh").wait()
        assert done.code == 3, (harm, done.code, done.err)
        assert name in done.err, harm
        assert "Traceback" not in done.err, harm
        assert "fault of the program" not in done.err, harm
        assert standing(house.data) == before, harm
        house.assert_nobody_left(2)
        if name == "crawl.db":
            told = house.order("status", "--json")
            assert told.code == 3, (harm, told.out)
            assert name in told.err, harm
            assert told.out == ""
            assert standing(house.data) == before, harm


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 60))
def test_damage_within_the_tables_sweep(house: House, site: Site, seed: int) -> None:
    damaged(house, site, seed)


def test_damage_within_the_tables_never_ends_in_a_traceback(house: House, site: Site) -> None:
    damaged(house, site, 0)


def damaged(house: House, site: Site, seed: int) -> None:
    """Overwrite pages of the database at random: whatever the program then does, it says it in its own words."""
    crawled(house, site)
    path, dice = house.data / "crawl.db", random.Random(seed)
    raw = bytearray(path.read_bytes())
    for page in dice.sample(range(1, len(raw) // 4096), min(12, len(raw) // 4096 - 1)):
        raw[page * 4096 : (page + 1) * 4096] = dice.randbytes(4096)
    path.write_bytes(raw)
    done = house.start("--fresh").wait()
    assert done.code in (0, 3), done.err
    for command in (["status", "--json"], ["export", "book"]):
        assert house.order(*command).code in (0, 2, 3)
    assert "Traceback" not in done.err
    assert "fault of the program" not in done.err
    if done.code == 3:
        assert "crawl.db" in done.err
    house.assert_nobody_left(10)


def test_a_database_that_fails_while_jobs_are_leased_ends_the_run(house: House, site: Site) -> None:
    """What a node has leased and then cannot begin must not wait in its hands for ever."""
    library = Library(site, shelves=6, delay=0.1)
    house.write(library.defs(concurrency=2))
    running = house.start(nodes=2)
    assert until(lambda: len(site.paths) > 4)
    with sqlite3.connect(house.data / "crawl.db", timeout=20) as db:
        db.execute("ALTER TABLE document_aliases RENAME TO elsewhere")
    db.close()
    done = running.wait(40)
    assert done.code == 3, done.err
    assert "crawl.db" in done.err + house.logs()
    house.assert_nobody_left()
    with sqlite3.connect(house.data / "crawl.db") as db:
        db.execute("ALTER TABLE elsewhere RENAME TO document_aliases")
    db.close()
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


def test_a_database_of_somebody_else_or_of_tomorrow_is_refused(house: House, site: Site) -> None:
    house.write(Library(site).defs())
    house.data.mkdir()
    for sql in ("CREATE TABLE mine (x)", "PRAGMA user_version = 99"):
        with sqlite3.connect(house.data / "crawl.db") as db:
            db.execute(sql)
        db.close()
        before = standing(house.data)
        done = house.start().wait()
        assert done.code == 3, done.err
        assert "crawl.db" in done.err
        assert "Traceback" not in done.err
        assert standing(house.data) == before


@pytest.mark.parametrize("name", ["crawl.db", "pages.db"])
def test_a_corrupt_database_keeps_the_other_as_a_crash_left_it(house: House, site: Site, name: str) -> None:
    """What lies in a log beside a database is not even folded into it, when its neighbour cannot be used."""
    house.write(Library(site, shelves=4, delay=0.1).defs(concurrency=2))
    running = house.start()
    assert until(lambda: len(site.paths) > 4)
    for pid in [running.pid, *house.children("node"), *house.children("append")]:
        os.kill(pid, signal.SIGKILL)
    running.wait()
    house.assert_nobody_left()
    assert list(house.data.glob("crawl.db-wal"))
    (house.data / name).write_bytes(b"no database at all" * 500)
    before = standing(house.data)
    done = house.start().wait()
    assert done.code == 3
    assert name in done.err
    assert "Traceback" not in done.err
    assert standing(house.data) == before


@pytest.mark.parametrize("older", [False, True], ids=["lost", "an older copy"])
def test_stored_pages_that_are_lost_cost_fetches_but_no_page(house: House, site: Site, older: bool) -> None:
    library = Library(site, shelves=3)
    house.write(library.defs().replace("{list: {dataDef", "{live: P1D, list: {dataDef"))
    house.crawl("--max-pages", "3", code=0)
    copy = (house.data / "pages.db").read_bytes()
    house.crawl("--max-pages", "9", code=0)
    (house.data / "pages.db").unlink()
    if older:
        (house.data / "pages.db").write_bytes(copy)
    done = house.crawl()
    assert done.jobs == {"done": library.size}
    assert house.counted("entry", "book") == library.rows()
    [(text,)] = house.query("SELECT text FROM events WHERE text LIKE '%lost%'")
    assert text.startswith(f"pages.db has lost {6 if older else 9} stored pages: ")
    assert text in done.err
    site.forget()
    house.crawl("--fresh")
    assert house.counted("entry", "book") == library.rows()
    assert site.times("/shelf/0") == (0 if older else 1), "what the copy holds still serves"
    assert house.query("SELECT count(*) FROM events WHERE text LIKE '%lost%'") == [(1,)]
