"""Seeding: locators become jobs, in steps that can be cut off and done again."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from engine.errors import UsageError
from engine.model.definition import Definitions, Locator, LocatorGroup, TaskGroup
from engine.model.run import RunState
from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL, migrate_databases
from engine.store.tables import checkpoints, runs, sequences, versions
from engine.store.tables.hosts import HostPolicy
from engine.store.transactions.placement import PlacementCache
from engine.supervise import seeding
from engine.supervise.seeding import Seeder, encode_request

SHOP = LocatorGroup(name="shop", locators=(Locator(name="pages", urls=("http://a/{1..5}", "http://b/x#top")),))


class Ground:
    """A run to be seeded."""

    def __init__(self, folder: Path) -> None:
        migrate_databases(folder)
        self.db = Database.open(folder / CRAWL, durable=False, busy_seconds=0.05)
        self.folder = folder
        with self.db.transaction():
            self.run = runs.create(self.db, None, 0.0).seq

    def seeding(self, *groups: LocatorGroup, **more: Any) -> Seeder:
        defs = Definitions(locator_groups=groups, **more)
        with self.db.transaction():
            version = versions.publish(self.db, defs, 0.0)
            runs.set_version(self.db, self.run, version)
        places = PlacementCache(self.run, lambda _: HostPolicy(0.0, 8, False), lambda _: None)
        return Seeder(self.db, runs.get(self.db, self.run), defs, version, places)

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


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path)
    yield ground
    ground.db.close()


def test_every_url_of_every_locator_becomes_a_job_and_the_run_ready(ground: Ground) -> None:
    ground.seed(SHOP)
    assert ground.urls() == [*(f"http://a/{i}" for i in range(1, 6)), "http://b/x"]
    run = runs.get(ground.db, ground.run)
    assert run.state is RunState.READY
    assert run.seeded_version == run.defs_version == 1
    assert ground.db.all("SELECT grp, ready FROM sequences ORDER BY id") == [("shop", 5), ("shop", 1)]
    (mark,) = checkpoints.list_checkpoints(ground.db, ground.run)
    assert (mark.step, mark.group, mark.completed, mark.status) == ("seeder", "shop", True, "valid")


def test_steps_say_which_sequences_to_ring_and_the_run_can_be_worked_meanwhile(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeding, "_BATCH_SIZE", 2)
    made = ground.seeding(SHOP)
    rung = []
    while not made.done:
        rung.append(made.step())
        assert ground.state() in (RunState.SEEDING, RunState.READY)
        if not made.done:
            assert runs.get(ground.db, ground.run).seeded_version is None
    assert rung == [[], [1], [], [2], []], "a bell that is rung is not rung again"
    assert sequences.count_pages(ground.db, ground.run, "ready") == 6


def test_what_was_seeded_is_not_looked_at_again(ground: Ground) -> None:
    ground.seed(SHOP)
    with ground.db.transaction():
        ground.db.execute("DELETE FROM jobs")
    ground.seed(SHOP)
    assert ground.urls() == []
    changed = replace(SHOP, locators=(replace(SHOP.locators[0], urls=("http://c/",)),))
    ground.seed(changed)
    assert ground.urls() == ["http://c/"]


def test_a_group_cut_off_half_way_is_seeded_again_without_doubles(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeding, "_BATCH_SIZE", 2)
    made = ground.seeding(SHOP)
    for _ in range(2):
        made.step()
    assert len(ground.urls()) == 2
    assert [c.status for c in checkpoints.list_checkpoints(ground.db, ground.run)] == ["provisional"]
    ground.seed(SHOP)
    assert len(ground.urls()) == len(set(ground.urls())) == 6


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4])
def test_a_busy_database_delays_seeding_and_loses_no_seed(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(seeding, "_BATCH_SIZE", 2)
    made = ground.seeding(SHOP)
    for _ in range(at):
        made.step()
    other = Database.open(ground.folder / CRAWL, durable=False)
    with other.transaction():
        assert made.step() == []
        assert not made.done
    other.close()
    for _ in range(20):
        made.step()
    assert made.done
    assert len(ground.urls()) == 6
    assert runs.get(ground.db, ground.run).seeded_version == 1


def test_priority_is_the_groups_and_other_groups_have_their_own_jobs(ground: Ground) -> None:
    other = replace(SHOP, name="other")
    ground.seed(SHOP, other, task_groups=(TaskGroup(name="other", priority=5),))
    assert ground.db.all("SELECT priority, count(*) FROM jobs GROUP BY 1") == [(0, 6), (5, 6)]


def test_relative_urls_are_resolved_by_the_run_then_by_the_defs(ground: Ground) -> None:
    group = LocatorGroup(name="g", locators=(Locator(name="l", urls=("/x", "http://b/y")),))
    ground.seed(group, base_url="http://defs/dir/")
    assert ground.urls() == ["http://defs/x", "http://b/y"]
    with ground.db.transaction():
        ground.db.execute("UPDATE runs SET base_url = 'http://flag/'")
    ground.seed(group, base_url="http://defs/dir/")
    assert ground.urls()[2:] == ["http://flag/x"], "another base makes the group new"


def test_urls_that_mean_the_same_are_one_job_and_bad_ones_are_told(ground: Ground) -> None:
    urls = ("HTTP://A:80/x/../1", "http://a/1#top", "mailto:x@y", "nothing", "http://a/1 ")
    made = ground.seed(LocatorGroup(name="g", locators=(Locator(name="l", urls=urls),)))
    assert ground.urls() == ["http://a/1"]
    assert len(made.problems) == 2
    assert made.problems[0] == "g: no usable URL: mailto:x@y"


def test_urls_come_from_a_file_one_a_line(ground: Ground, tmp_path: Path) -> None:
    told = tmp_path / "urls.txt"
    told.write_text("\ufeffhttp://a/1\n\n  # no\n http://a/2 \r\nhttp://a/{1..9}\n", "utf-8")
    ground.seed(LocatorGroup(name="g", locators=(Locator(name="l", from_file=str(told)),)))
    assert ground.urls() == ["http://a/1", "http://a/2", "http://a/%7B1..9%7D"], "braces in a file are no pattern"


def test_urls_come_from_standard_input(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("http://a/1\n"))
    ground.seed(LocatorGroup(name="g", locators=(Locator(name="l", from_file="-"),)))
    assert ground.urls() == ["http://a/1"]


def test_a_file_that_is_missing_is_named(ground: Ground, tmp_path: Path) -> None:
    made = ground.seeding(LocatorGroup(name="g", locators=(Locator(name="l", from_file=str(tmp_path / "gone")),)))
    with pytest.raises(UsageError, match="gone"):
        for _ in range(9):
            made.step()


def test_a_sitemap_is_a_job_of_its_own_kind_and_counts_as_no_page(ground: Ground) -> None:
    ground.seed(LocatorGroup(name="g", locators=(Locator(name="l", sitemap="http://a/sitemap.xml"),)))
    assert ground.db.all("SELECT kind, grp, ready FROM sequences") == [("sitemap", "g", 1)]
    assert sequences.count_pages(ground.db, ground.run, "ready") == 0


def test_a_sitemap_and_a_page_at_one_url_are_two_jobs(ground: Ground) -> None:
    ground.seed(LocatorGroup(name="g", locators=(Locator(name="l", urls=("http://a/s",), sitemap="http://a/s"),)))
    assert ground.urls() == ["http://a/s", "http://a/s"]


def test_a_million_seeds_are_never_all_in_memory(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeding, "_BATCH_SIZE", 100)
    made = ground.seeding(LocatorGroup(name="g", locators=(Locator(name="l", urls=("http://a/{1..90000}",)),)))
    for _ in range(3):
        made.step()
    assert len(ground.urls()) == 200


def test_a_request_is_kept_as_written_with_variables_unresolved() -> None:
    told = Locator(
        name="l", method="POST", headers={"B": "%{env.KEY}", "A": "1"}, cookies={"c": "2"}, body="q=%{env.Q}",
        content_type="text/plain",
    )  # fmt: skip
    assert orjson.loads(encode_request(told)) == {
        "method": "POST", "headers": [["B", "%{env.KEY}"], ["A", "1"]], "cookies": [["c", "2"]],
        "body": "q=%{env.Q}", "content_type": "text/plain",
    }  # fmt: skip
