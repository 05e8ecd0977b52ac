"""Entries of a run that began when a group had one entry for each step: converted when the defs are published."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.model.definition import DataDef, Definitions, Field, FilterRule, Locator, LocatorGroup, Task, TaskGroup
from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL, migrate_databases
from engine.store.tables import checkpoints, runs, versions
from engine.store.tables.checkpoints import Checkpoint
from engine.supervise.checkpoints import tracker
from engine.supervise.checkpoints.step_graph import build_step_graph
from tests.contract.store.harness import StoreHarness
from tests.data.kept_crawl import DUMPS, load_dump

DEFS = Definitions(
    locator_groups=(LocatorGroup(name="g", locators=(Locator(name="l", urls=("http://a/",)),)),),
    task_groups=(TaskGroup(name="g", tasks=(Task(name="a", data_def="book"), Task(name="b", data_def="entry"))),),
    data_defs=(DataDef(name="book", fields=(Field(name="title"),)), DataDef(name="entry", fields=(Field(name="x"),))),
)
TASK_KEYS = {f"g/{task}/{step}" for task in "ab" for step in ("parser", "filter", "appender")}


def publish(store: StoreHarness, definitions: Definitions, *, reextract: bool = False) -> dict[str, Checkpoint]:
    """The entries after these defs are published."""
    graph = build_step_graph(replace(definitions), base_url=None, output=None)
    with store.db.transaction():
        version = versions.publish(store.db, replace(definitions), 1.0)
        tracker.publish_steps(store.db, store.run, graph, version, reextract=reextract)
        runs.set_version(store.db, store.run, version)
    return tracker.read_checkpoints(store.db, store.run)


@pytest.fixture
def earlier(store: StoreHarness) -> StoreHarness:
    """A run whose group g is complete by entries of an earlier version, with a note at its parser."""
    entries = publish(store, DEFS)
    shared = [entry for entry in entries.values() if not entry.task]
    old = [
        Checkpoint(step="parser", group="g", content_hash="?", dependencies=("loader",), kept=5),
        Checkpoint(step="filter", group="g", content_hash="?", dependencies=("parser",)),
        Checkpoint(step="appender", group="g", content_hash="?", dependencies=("filter",)),
        Checkpoint(step="parser", group="removed", content_hash="?", dependencies=("loader",)),
    ]
    with store.db.transaction():
        checkpoints.delete(store.db, store.run, [entry for entry in entries.values() if entry.task])
        completed = [replace(entry, completed_at=7.0, status="valid") for entry in (*shared, *old)]
        checkpoints.write(store.db, store.run, completed)
    return store


def test_with_the_same_defs_the_tasks_get_the_state_of_their_group(earlier: StoreHarness) -> None:
    entries = publish(earlier, DEFS)
    assert set(entries) == {"g/seeder", "g/loader"} | TASK_KEYS
    parsers = [entries[f"g/{task}/parser"] for task in "ab"]
    assert [(entry.completed_at, entry.status, entry.kept) for entry in parsers] == [(7.0, "valid", 5)] * 2
    assert entries["g/loader"].completed
    assert not entries["g/a/appender"].completed, "the files decide"
    assert entries["g/a/appender"].status == "provisional"
    assert publish(earlier, DEFS) == entries, "once"


def test_with_other_defs_what_changed_is_invalid(earlier: StoreHarness) -> None:
    changed = replace(DEFS.data_defs[1], filters=(FilterRule(field="x", pattern="y"),))
    entries = publish(earlier, replace(DEFS, data_defs=(DEFS.data_defs[0], changed)))
    assert {key for key, entry in entries.items() if entry.status == "invalid"} == {"g/b/filter", "g/b/appender"}
    assert entries["g/b/filter"].reason == "its filters changed with defs v3"


@pytest.mark.parametrize("dump", ["schema-2/cancelled", "schema-6/cancelled"])
def test_a_migrated_table_keeps_the_entries_of_the_groups_in_order(tmp_path: Path, dump: str) -> None:
    load_dump(DUMPS / dump, tmp_path)
    with closing(sqlite3.connect(tmp_path / CRAWL)) as db:
        before = db.execute("SELECT run, grp, step_name, completed, content_hash, kept FROM checkpoints").fetchall()
    with closing(Database.open(tmp_path / CRAWL, read_only=True)) as database:
        unmigrated = checkpoints.list_checkpoints(database, 2)
    migrate_databases(tmp_path)
    with closing(Database.open(tmp_path / CRAWL)) as database:
        after = database.all("SELECT run, grp, step_name, completed, content_hash, kept FROM checkpoints")
        listed = checkpoints.list_checkpoints(database, 2)
    assert sorted(after) == sorted(before)
    assert len(before) > 10
    assert unmigrated == listed
    steps = [entry.step for entry in listed if entry.group == "shelves"]
    assert steps == ["seeder", "loader", "parser", "filter", "appender"]
