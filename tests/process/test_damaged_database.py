"""Damaged, foreign or missing databases: the file is named, nothing changes."""

import os
import random
import signal
import sqlite3
from collections.abc import Callable

import pytest

from crawl_engine.store.db.file_header import APPLICATION_ID
from tests.sample import sampled

from .library import Library
from .project import Project, until
from .site import Site
from .test_data_dir import file_states, finished_crawl

pytestmark = pytest.mark.timeout(60)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda raw: random.Random(1).randbytes(len(raw)),
    "header": lambda raw: bytes(100) + raw[100:],
    "cut": lambda raw: raw[: len(raw) // 3 + 7],
    "text": lambda raw: b"hello, I am a shopping list\n" * 50,
}


@pytest.mark.quick
@pytest.mark.parametrize("name", sampled(["crawl.db", "pages.db"], 0))
def test_a_corrupt_database_is_named_and_left_alone(project: Project, site: Site, name: str) -> None:
    finished_crawl(project, site)
    path = project.data / name
    with sqlite3.connect(path) as db:  # else the WAL would repair the file
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    good = path.read_bytes()
    for damage, change in DAMAGES.items():
        path.write_bytes(change(good))
        before = file_states(project.data)
        done = project.start("--fresh").wait()
        assert done.code == 3, (damage, done.code, done.err)
        assert name in done.err, damage
        assert "Traceback" not in done.err, damage
        assert "fault of the program" not in done.err, damage
        assert file_states(project.data) == before, damage
        project.assert_no_process_left(2)
        if name == "crawl.db":
            result = project.run_with_data("status", "--json")
            assert result.code == 3, (damage, result.out)
            assert name in result.err, damage
            assert result.out == ""
            assert file_states(project.data) == before, damage


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 60))
def test_damage_within_the_tables_sweep(project: Project, site: Site, seed: int) -> None:
    crawl_damaged(project, site, seed)


def test_damage_within_the_tables_never_ends_in_a_traceback(project: Project, site: Site) -> None:
    crawl_damaged(project, site, 0)


def crawl_damaged(project: Project, site: Site, seed: int) -> None:
    """Overwrite pages of the database at random: any failure is reported in plain words, without a traceback."""
    finished_crawl(project, site)
    path, rng = project.data / "crawl.db", random.Random(seed)
    raw = bytearray(path.read_bytes())
    for page in rng.sample(range(1, len(raw) // 4096), min(12, len(raw) // 4096 - 1)):
        raw[page * 4096 : (page + 1) * 4096] = rng.randbytes(4096)
    path.write_bytes(raw)
    done = project.start("--fresh").wait()
    assert done.code in (0, 3), done.err
    for command in (["status", "--json"], ["export", "book"]):
        assert project.run_with_data(*command).code in (0, 2, 3)
    assert "Traceback" not in done.err
    assert "fault of the program" not in done.err
    if done.code == 3:
        assert "crawl.db" in done.err
    project.assert_no_process_left(10)


@pytest.mark.extended
def test_stored_json_that_is_cut_short_is_named(project: Project, site: Site) -> None:
    finished_crawl(project, site)
    good = (project.data / "crawl.db").read_bytes()
    for table, column, command in (
        ("runs", "baseline", ["status", "--json"]),
        ("def_versions", "definitions", ["export", "book"]),
        ("rows", "data", ["export", "book"]),
    ):
        (project.data / "crawl.db").write_bytes(good)
        with sqlite3.connect(project.data / "crawl.db") as db:
            db.execute(f"UPDATE {table} SET {column} = substr({column}, 1, length({column}) / 2)")
        db.close()
        done = project.run_with_data(*command)
        assert done.code == 3, (table, column, done.err)
        assert "crawl.db: damaged (a stored value cannot be read: " in done.err


@pytest.mark.sweep
def test_a_database_that_fails_while_jobs_are_leased_ends_the_run(project: Project, site: Site) -> None:
    """Jobs that a node has leased and cannot start must not stay TAKEN for ever."""
    library = Library(site, shelves=6, delay=0.1)
    project.write(library.defs(concurrency=2))
    running = project.start(nodes=2)
    assert until(lambda: len(site.paths) > 4)
    with sqlite3.connect(project.data / "crawl.db", timeout=20) as db:
        db.execute("ALTER TABLE document_aliases RENAME TO elsewhere")
    db.close()
    done = running.wait(40)
    assert done.code == 3, done.err
    assert "crawl.db" in done.err + project.logs()
    project.assert_no_process_left()
    with sqlite3.connect(project.data / "crawl.db") as db:
        db.execute("ALTER TABLE elsewhere RENAME TO document_aliases")
    db.close()
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.quick
def test_a_foreign_or_newer_database_is_refused(project: Project, site: Site) -> None:
    project.write(Library(site).defs())
    project.data.mkdir()
    newer = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 99"
    for sql, reason in (
        ("CREATE TABLE mine (x)", "of another program"),
        (newer, "made by a newer version of crawl-console (format 99;"),
    ):
        with sqlite3.connect(project.data / "crawl.db") as db:
            db.executescript(sql)
        db.close()
        before, names = file_states(project.data), sorted(project.data.rglob("*"))
        commands = ("status", "jobs", "runs", "state", "pause", "retry")
        refused = [(3 if name == "status" else 2, project.run_with_data(name)) for name in commands]
        refused.append((2, project.start().wait()))
        refused.append(
            (2, project.start_command("extract", "--defs", str(project.defs), "--data", str(project.data)).wait())
        )
        for code, done in refused:
            assert done.code == code, done.err
            assert f"crawl.db: {reason}" in done.err
            assert file_states(project.data) == before
            assert sorted(project.data.rglob("*")) == names


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["crawl.db", "pages.db"])
def test_a_corrupt_database_leaves_the_other_as_a_crash_left_it(project: Project, site: Site, name: str) -> None:
    """A WAL is not even checkpointed when the other database cannot be used."""
    project.write(Library(site, shelves=4, delay=0.1).defs(concurrency=2))
    running = project.start()
    assert until(lambda: len(site.paths) > 4)
    for pid in [running.pid, *project.children("node"), *project.children("appender")]:
        os.kill(pid, signal.SIGKILL)
    running.wait()
    project.assert_no_process_left()
    assert list(project.data.glob("crawl.db-wal"))
    (project.data / name).write_bytes(b"no database at all" * 500)
    before = file_states(project.data)
    done = project.start().wait()
    assert done.code == 3
    assert name in done.err
    assert "Traceback" not in done.err
    assert file_states(project.data) == before


@pytest.mark.sweep
@pytest.mark.parametrize("older", sampled([False, True], 0), ids=["lost", "an older copy"])
def test_lost_stored_pages_are_fetched_again(project: Project, site: Site, older: bool) -> None:
    library = Library(site, shelves=3)
    project.write(library.defs().replace("{list: {dataDef", "{live: P1D, list: {dataDef"))
    project.crawl("--max-pages", "3", code=0)
    copy = (project.data / "pages.db").read_bytes()
    project.crawl("--max-pages", "9", code=0)
    (project.data / "pages.db").unlink()
    if older:
        (project.data / "pages.db").write_bytes(copy)
    done = project.crawl()
    assert done.jobs == {"done": library.size}
    assert project.count_rows("entry", "book") == library.rows()
    [(text,)] = project.query("SELECT text FROM events WHERE text LIKE '%lost%'")
    assert text.startswith(f"pages.db has lost {6 if older else 9} stored pages: ")
    assert text in done.err
    site.clear_log()
    project.crawl("--fresh")
    assert project.count_rows("entry", "book") == library.rows()
    assert site.count("/shelf/0") == (0 if older else 1), "pages in the copy are still used"
    assert project.query("SELECT count(*) FROM events WHERE text LIKE '%lost%'") == [(1,)]
