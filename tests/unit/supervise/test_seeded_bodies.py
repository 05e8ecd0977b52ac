"""Locators whose bodies have ranges and lists: one job for each combination, whatever interrupts the seeding."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawl_engine.model.locator import Locator, LocatorGroup

from .seeding_harness import SeedingHarness, fix_batch_size

SEARCH = Locator(
    name="l", urls=("http://a/{x,y}",), method="POST", body="q={tea,coffee}&n={1..3}&k=%{env.K}",
    body_pieces=("q=", "{tea,coffee}", "&n=", "{1..3}", "&k=%{env.K}"),
    content_type="application/x-www-form-urlencoded",
)  # fmt: skip
GROUP = LocatorGroup(name="g", locators=(SEARCH,))
EXPECTED = [
    (f"http://a/{path}", f"q={word}&n={n}&k=%{{env.K}}")
    for path in "xy" for word in ("tea", "coffee") for n in (1, 2, 3)
]  # fmt: skip


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SeedingHarness]:
    harness = SeedingHarness(tmp_path)
    yield harness
    harness.db.close()


def requests(harness: SeedingHarness) -> list[tuple[str, str]]:
    return harness.db.all(
        "SELECT j.url, l.request ->> '$.body' FROM jobs j JOIN locators l ON l.id = j.locator ORDER BY j.id"
    )


def test_each_combination_is_a_job_with_its_body(harness: SeedingHarness) -> None:
    harness.seed(GROUP)
    assert requests(harness) == EXPECTED
    assert harness.db.value("SELECT count(*) FROM jobs WHERE page_key IS NOT NULL") == 0


def test_an_interrupted_product_is_seeded_again_without_duplicates(
    harness: SeedingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_batch_size(monkeypatch, 5)
    made = harness.seeding(GROUP)
    for _ in range(3):
        made.step()
    assert 0 < len(requests(harness)) < len(EXPECTED)
    harness.seed(GROUP)
    assert requests(harness) == EXPECTED


def test_a_change_of_the_range_adds_the_new_combinations_alone(harness: SeedingHarness) -> None:
    harness.seed(GROUP)
    pieces = ("q=", "{tea,milk}", "&n=", "{1..3}", "&k=%{env.K}")
    changed = replace(SEARCH, body="".join(pieces), body_pieces=pieces)
    harness.seed(LocatorGroup(name="g", locators=(changed,)))
    added = [(f"http://a/{path}", f"q=milk&n={n}&k=%{{env.K}}") for path in "xy" for n in (1, 2, 3)]
    assert requests(harness) == EXPECTED + added


def test_a_combination_is_the_page_of_a_locator_with_that_body(harness: SeedingHarness) -> None:
    plain = replace(SEARCH, urls=("http://a/x",), body="q=tea&n=1&k=%{env.K}", body_pieces=())
    harness.seed(LocatorGroup(name="g", locators=(plain,)))
    harness.seed(GROUP)
    assert sorted(requests(harness)) == sorted(EXPECTED)
