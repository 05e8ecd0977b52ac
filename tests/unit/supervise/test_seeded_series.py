"""Locators with `until`: the first page of each series is a job, and its locator holds the series."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.defs.builders.bodies import FORM_TYPE, JSON_TYPE
from crawl_engine.model.job import link_key, locator_key
from crawl_engine.model.locator import MAX_SERIES_PAGES, Locator, LocatorGroup, Series
from crawl_engine.store.tables.job import locators
from crawl_engine.supervise.seeding.seed_jobs import Seed
from crawl_engine.supervise.seeding.seed_reader import SeedReader

from .seeding_harness import SeedingHarness


def locator(*urls: str, **more: Any) -> Locator:
    return Locator(name="l", urls=urls, until_empty=True, **more)


def seeds(own: Locator, base: str | None = None) -> tuple[list[Seed], list[str]]:
    """The seeds, and the problems."""
    reader = SeedReader(base)
    found = [seed for _, part in reader.list_seeds(own) for seed in part]
    return found, reader.problems


def series_of(own: Locator, base: str | None = None) -> list[tuple[str, str | None, Series | None]]:
    found, problems = seeds(own, base)
    assert problems == []
    return [(seed.url, seed.body, seed.series) for seed in found]


@pytest.mark.parametrize(
    ("written", "url", "series"),
    [
        ("http://a/?p={1..}", "http://a/?p=1", Series(url=("http://a/?p=", ""), first=1)),
        ("http://a/{0..}/x", "http://a/0/x", Series(url=("http://a/", "/x"), first=0)),
        ("http://a/?s={0..*..20}", "http://a/?s=0", Series(url=("http://a/?s=", ""), first=0, step=20)),
        ("http://a/{00..80..20}", "http://a/00", Series(url=("http://a/", ""), first=0, last=80, width=2, step=20)),
        ("http://a/{5..1}", "http://a/5", Series(url=("http://a/", ""), first=5, last=1)),
        ("http://a/{08..12}", "http://a/08", Series(url=("http://a/", ""), first=8, last=12, width=2)),
        ("http://a/{001..}", "http://a/001", Series(url=("http://a/", ""), first=1, width=3)),
        ("/tea?p={1..}", "http://base:81/tea?p=1", Series(url=("http://base:81/tea?p=", ""), first=1)),
        ("HTTP://A:80/é?q=a b&p={1..}", "http://a/%C3%A9?q=a%20b&p=1",
         Series(url=("http://a/%C3%A9?q=a%20b&p=", ""), first=1)),
        ("http://a/\\{{1..}\\}", "http://a/%7B1%7D", Series(url=("http://a/%7B", "%7D"), first=1)),
        ("http://a/x?p={1..}#top", "http://a/x?p=1", Series(url=("http://a/x?p=", ""), first=1)),
    ],
)  # fmt: skip
def test_the_first_page_and_the_pieces_of_its_url(written: str, url: str, series: Series) -> None:
    assert series_of(locator(written), "http://base:81/") == [(url, None, series)]


@pytest.mark.parametrize(
    ("series", "numbers"),
    [
        (Series(url=("/", ""), first=0, last=80, step=20), [0, 20, 40, 60, 80]),
        (Series(url=("/", ""), first=0, last=79, step=20), [0, 20, 40, 60]),
        (Series(url=("/", ""), first=50, last=0, step=20), [50, 30, 10]),
        (Series(url=("/", ""), first=3, last=3, step=20), [3]),
        (Series(url=("/", ""), first=3, last=4), [3, 4]),
    ],
)
def test_the_numbers_of_a_series(series: Series, numbers: list[int]) -> None:
    found: list[int] = []
    number: int | None = series.first
    while number is not None:
        found.append(number)
        number = series.following(number)
    assert found == numbers


def test_an_open_series_with_a_step_has_as_many_pages_as_any() -> None:
    series = Series(url=("/", ""), first=10, step=20)
    assert series.following(10 + 20 * (MAX_SERIES_PAGES - 2)) == 10 + 20 * (MAX_SERIES_PAGES - 1)
    assert series.following(10 + 20 * (MAX_SERIES_PAGES - 1)) is None


def test_other_ranges_and_lists_give_a_series_each() -> None:
    found = series_of(locator("http://a/{x,y}/{1..2}?p={1..}"))
    assert [url for url, _, _ in found] == [f"http://a/{part}/{n}?p=1" for part in "xy" for n in (1, 2)]
    assert [series.url for _, _, series in found if series] == [
        (f"http://a/{part}/{n}?p=", "") for part in "xy" for n in (1, 2)
    ]
    last = series_of(locator("http://a/{1..2}/{7..9}"))
    assert [(url, series.first, series.last) for url, _, series in last if series] == [
        ("http://a/1/7", 7, 9), ("http://a/2/7", 7, 9),
    ]  # fmt: skip
    assert len(series_of(locator("http://a/{1..}", "http://b/{1..}"))) == 2


def test_the_range_may_be_in_the_body() -> None:
    form = locator(
        "http://a/{x,y}", method="POST", body="q={tea,a b}&p={1..}",
        body_pieces=("q=", "{tea,a b}", "&p=", "{1..}", ""), content_type=FORM_TYPE,
    )  # fmt: skip
    found = series_of(form)
    assert [(url, body) for url, body, _ in found] == [
        (f"http://a/{part}", f"q={word}&p=1") for part in "xy" for word in ("tea", "a+b")
    ]
    assert found[1][2] == Series(url=("http://a/x",), body=("q=a+b&p=", ""), first=1)
    data = locator(
        "http://a/s", method="POST", body='{"p":"{1..3}","k":"%{env.K}"}',
        body_pieces=('{"p":"', "{1..3}", '","k":"%{env.K}"}'), content_type=JSON_TYPE,
    )  # fmt: skip
    ((url, body, series),) = series_of(data)
    assert (url, body) == ("http://a/s", '{"p":"1","k":"%{env.K}"}')
    assert series == Series(url=("http://a/s",), body=('{"p":"', '","k":"%{env.K}"}'), first=1, last=3)


def test_a_body_without_a_range_goes_along() -> None:
    ((_, body, series),) = series_of(locator("http://a/{1..}", method="POST", body="x=1", content_type=FORM_TYPE))
    assert body == "x=1"
    assert series is not None
    assert series.request(2) == ("http://a/2", "x=1")


@pytest.mark.parametrize("written", ["http://u:pw@a/{1..}", "http://u:%{env.PW}@a/{1..}"])
def test_the_pieces_hold_no_password(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("PW", "pw")
    ((seed,), problems) = seeds(locator(written))
    assert problems == []
    assert seed.series == Series(url=("http://a/", ""), first=1)
    assert seed.url == "http://a/1"
    assert seed.userinfo


@pytest.mark.parametrize(
    "written",
    ["http://a/x#{1..}", "http://a/{1..}/../b", "//a:{1..}/x", "//127.0.0.{1..}/x", "http:\\\\a:{1..9}/"],
)
def test_a_range_in_a_part_that_is_not_sent_ends_with_a_problem(written: str) -> None:
    found, problems = seeds(locator(written), "http://base/")
    assert found == []
    (problem,) = problems
    assert "the number of its range" in problem


@pytest.mark.parametrize("written", ["http://[/{1..}", "{1..}", "x:{1..}"])
def test_an_unusable_url_is_a_problem(written: str) -> None:
    found, problems = seeds(locator(written))
    assert found == []
    assert len(problems) == 1


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SeedingHarness]:
    harness = SeedingHarness(tmp_path)
    yield harness
    harness.db.close()


def test_the_locator_of_the_first_page_holds_its_series(harness: SeedingHarness) -> None:
    group = LocatorGroup(name="g", locators=(locator("http://a/{x,y}?p={1..}"),))
    harness.seed(group)
    found = harness.db.all("SELECT url, locator, identity, page_key FROM jobs ORDER BY id")
    assert [url for url, *_ in found] == ["http://a/x?p=1", "http://a/y?p=1"]
    for url, own, identity, page_key in found:
        series = locators.get_series(harness.db, own)
        assert series is not None
        assert series.request(1) == (url, None)
        assert (identity, page_key) == (locator_key("g", "l", url, "GET", None), link_key("g", url))
    harness.seed(group)
    assert len(harness.urls()) == 2, "seeded again, nothing is new"


def test_a_page_that_was_seeded_before_it_was_in_a_series_gets_one(harness: SeedingHarness) -> None:
    harness.seed(LocatorGroup(name="g", locators=(Locator(name="l", urls=("http://a/?p=1",)),)))
    harness.seed(LocatorGroup(name="g", locators=(locator("http://a/?p={1..}"),)))
    ((url, own),) = harness.db.all("SELECT url, locator FROM jobs")
    assert url == "http://a/?p=1"
    assert locators.get_series(harness.db, own) == Series(url=("http://a/?p=", ""), first=1)
