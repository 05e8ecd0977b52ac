"""Lists that cannot be read are read again, as often as the setting `seed_retries` says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_engine.defs.url_list import ListPosition, ListUnreadable, UrlList
from crawl_engine.errors import UsageError
from crawl_engine.model.locator import Locator, LocatorGroup
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.tables.run import checkpoints
from crawl_engine.supervise.seeding import seeder as seeding
from crawl_engine.supervise.seeding.seeder import Seeder

from .seeding_harness import SHOP, SeedingHarness, fix_batch_size


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SeedingHarness]:
    monkeypatch.setattr(seeding, "_RETRY_SECONDS", 0.01)
    harness = SeedingHarness(tmp_path)
    yield harness
    harness.db.close()


def seed_list(harness: SeedingHarness, listed: Path, *, retries: int) -> Iterator[Seeder]:
    """The seeder of a list, after each step."""
    group = LocatorGroup(name="g", locators=(Locator(name="l", from_file=str(listed)),))
    made = harness.seeding(group, retries=retries)
    while not made.done:
        made.step()
        yield made


def retries_recorded(harness: SeedingHarness) -> list[str]:
    return [text.partition("; ")[2] for (text,) in harness.db.all("SELECT text FROM events WHERE kind = 'seed'")]


def test_a_list_that_cannot_be_read_is_read_again(
    harness: SeedingHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "urls.txt"
    for _ in seed_list(harness, listed, retries=5):
        if len(retries_recorded(harness)) == 2 and not listed.exists():
            listed.write_text("http://a/1\nhttp://a/2\n")
    assert harness.urls() == ["http://a/1", "http://a/2"]
    assert retries_recorded(harness) == ["retry 1 of 5 in 0.01 s", "retry 2 of 5 in 0.02 s"]


def test_after_its_retries_a_list_ends_the_seeding(
    harness: SeedingHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="No such file"):
        list(seed_list(harness, tmp_path / "gone", retries=2))
    assert len(retries_recorded(harness)) == 2


def test_a_list_that_breaks_off_is_seeded_once(
    harness: SeedingHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_batch_size(monkeypatch, 2)
    read_from = UrlList.read_from
    starts: list[ListPosition] = []

    def break_off(self: UrlList, position: ListPosition, stamp: str) -> Iterator[tuple[int, str]]:
        starts.append(position)
        for number, text in read_from(self, position, stamp):
            if number == 4 and len(starts) == 1:
                raise ListUnreadable("Input/output error", "")
            yield number, text

    monkeypatch.setattr(UrlList, "read_from", break_off)
    listed = tmp_path / "urls.txt"
    listed.write_text("".join(f"http://a/{number}\n" for number in range(1, 6)))
    list(seed_list(harness, listed, retries=1))
    assert harness.urls() == [f"http://a/{number}" for number in range(1, 6)]
    assert starts == [(0, 0), (11, 1)], "it is read on from the line that was read last"


def test_a_busy_database_costs_steps_and_no_retry(harness: SeedingHarness) -> None:
    made = harness.seeding(SHOP, retries=0)
    made.step()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "is_complete", _raise_busy)
        assert made.step() == made.step() == []
    while not made.done:
        made.step()
    assert len(harness.urls()) == 6


def _raise_busy(*_: object) -> bool:
    raise DatabaseBusy("busy")
