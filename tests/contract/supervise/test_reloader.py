"""An order to publish outlives a busy database and further saves."""

from typing import cast
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from crawl_engine.defs.watcher import DefsWatcher, LoadResult
from crawl_engine.model.definition import DataDef, Definitions, Field, Task, TaskGroup
from crawl_engine.model.fingerprint import PreparedDefs
from crawl_engine.store.db.connector import DatabaseBusy, connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.run import events, versions
from crawl_engine.supervise.checkpoints.step_graph import StepGraph, build_step_graph
from crawl_engine.supervise.checkpoints.tracker import CheckpointTracker
from crawl_engine.supervise.reload.reloader import Reloader
from tests.contract.store.harness import DEFS, StoreHarness

GROUP = TaskGroup(name="g", tasks=(Task(name="t", data_def="book"),))


class StandInWatcher:
    """Hands over the results it is given: what a save brings at which moment is not to be had of a real one."""

    def __init__(self) -> None:
        self.result: LoadResult[StepGraph] | None = None
        self.requests = 0

    def take_result(self) -> LoadResult[StepGraph] | None:
        result, self.result = self.result, None
        return result

    def request_load(self) -> int:
        self.requests += 1
        return self.requests

    def save(self, field: str, *, ticket: int = 0) -> Definitions:
        data_def = DataDef(name="book", fields=(Field(name=field),))
        definitions = replace(DEFS, data_defs=(data_def,), task_groups=(GROUP,))
        graph = build_step_graph(definitions, base_url=None, output=None)
        self.result = LoadResult(
            edition=PreparedDefs.from_definitions(definitions), prepared=graph, problems=(), ticket=ticket
        )
        return definitions


@pytest.fixture
def watcher() -> StandInWatcher:
    return StandInWatcher()


@pytest.fixture
def reloader(store: StoreHarness, watcher: StandInWatcher) -> Reloader:
    store.context().output_dir.mkdir(parents=True)
    return Reloader(
        run=store.context(connect(store.folder / CRAWL, busy_seconds=0.1), on_save="ask"),
        watcher=cast("DefsWatcher[StepGraph]", watcher), output_file=None, checkpoints=cast(CheckpointTracker, Mock()),
        current=PreparedDefs.from_definitions(DEFS),
    )  # fmt: skip


def test_a_command_that_a_busy_database_delays_is_answered(
    store: StoreHarness, watcher: StandInWatcher, reloader: Reloader
) -> None:
    assert reloader.request(7) is None
    watcher.save("first", ticket=1)
    with store.db.transaction(), pytest.raises(DatabaseBusy):
        reloader.tick()
    newest = watcher.save("second")
    assert reloader.tick() is not None
    assert versions.read(store.db, versions.current(store.db, store.run)).data_defs == newest.data_defs
    answer = reloader.request(7)
    assert answer is not None
    assert answer[0]


def test_a_save_without_an_order_waits(store: StoreHarness, watcher: StandInWatcher, reloader: Reloader) -> None:
    before = versions.current(store.db, store.run)
    saved = watcher.save("first")
    assert reloader.tick() is None
    assert versions.current(store.db, store.run) == before
    watcher.save("first")
    assert reloader.tick() is None
    waiting = [text for text in events.list_texts(store.db, store.run, "defs", 0, 9) if "not published" in text]
    assert len(waiting) == 1, "saved again with the same meaning"
    reloader.check_now()
    watcher.save("first", ticket=1)
    assert reloader.tick() is not None
    assert versions.read(store.db, versions.current(store.db, store.run)).data_defs == saved.data_defs
    watcher.save("second")
    assert reloader.tick() is None, "a signal publishes once"
