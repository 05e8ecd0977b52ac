"""A run without jobs yet, whose locators a test seeds step by step."""

from pathlib import Path
from typing import Any

import pytest

from crawl_engine.model.definition import Definitions
from crawl_engine.model.locator import Locator, LocatorGroup
from crawl_engine.model.run import RunState
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.tables.run import runs, versions
from crawl_engine.supervise.run_context import RunContext
from crawl_engine.supervise.seeding import seed_jobs
from crawl_engine.supervise.seeding.seeder import Seeder

SHOP = LocatorGroup(name="shop", locators=(Locator(name="pages", urls=("http://a/{1..5}", "http://b/x#top")),))


class SeedingHarness:
    """A run without jobs yet."""

    def __init__(self, folder: Path) -> None:
        open_databases(folder).close()
        self.db = connect(folder / CRAWL, durable=False, busy_seconds=0.05)
        self.folder = folder
        with self.db.transaction():
            self.run = runs.create(self.db, None, 0.0).seq

    def seeding(self, *groups: LocatorGroup, retries: int = 3, **more: Any) -> Seeder:
        defs = Definitions(locator_groups=groups, **more)
        with self.db.transaction():
            version = versions.publish(self.db, defs, 0.0)
            runs.set_version(self.db, self.run, version)
        settings = Settings(delay=0.0, robots=False, seed_retries=retries)
        return Seeder(RunContext(self.db, self.folder, runs.get(self.db, self.run), settings, 1), defs, version)

    def seed(self, *groups: LocatorGroup, **more: Any) -> Seeder:
        made = self.seeding(*groups, **more)
        for _ in range(1000):
            made.step()
            if made.done:
                return made
        raise AssertionError("it never ends")

    def urls(self) -> list[str]:
        return [row[0] for row in self.db.all("SELECT url FROM jobs ORDER BY id")]

    def state(self) -> RunState:
        return runs.get(self.db, self.run).state


def fix_batch_size(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Write batches of so many seeds, however long they take."""
    monkeypatch.setattr(seed_jobs, "_FIRST_BATCH", size)
    monkeypatch.setattr(seed_jobs, "next_batch_size", lambda *_: size)
