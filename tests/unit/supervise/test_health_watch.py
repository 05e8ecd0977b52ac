"""What a dataDef gives much less of than before, within one run."""

from collections.abc import Iterable

import pytest

from crawl_engine.store.tables.row.health import DataDefHealth
from crawl_engine.supervise.analysis.health_watch import MIN_EXPECTED, MIN_GONE, DropDetector


class Crawl:
    """Counters that grow page by page; the detector sees them every `step` pages."""

    def __init__(self, step: int = 10) -> None:
        self.detector = DropDetector()
        self.step = step
        self.pages = self.records = self.filled = 0

    def work(self, pages: Iterable[tuple[int, int]]) -> set[str]:
        """Pages as (records, of them filled); returns what was noticed last: `rows`, `price`."""
        noticed: set[str] = set()
        for records, filled in pages:
            self.pages, self.records, self.filled = self.pages + 1, self.records + records, self.filled + filled
            if self.pages % self.step == 0:
                counts = DataDefHealth(
                    self.pages, self.records, 0,
                    {"price": self.records - self.filled, "note": self.records}, frozenset({"note"}),
                )  # fmt: skip
                noticed = {fall.name or "rows" for fall in self.detector.update(counts) if fall.is_drop}
        return noticed


@pytest.mark.parametrize("step", [1, 10, 170])
def test_a_field_that_breaks_is_noticed_within_some_pages_and_until_it_recovers(step: int) -> None:
    crawl = Crawl(step)
    assert crawl.work([(1, 1)] * 510) == set()
    assert crawl.work([(1, 0)] * 170) == {"price"}
    assert crawl.work([(1, 0)] * 3_060) == {"price"}, "it does not get used to it"
    assert crawl.work([(1, 1)] * 680) == set()


def test_rows_that_stop_are_noticed(step: int = 10) -> None:
    crawl = Crawl(step)
    assert crawl.work([(20, 20)] * 60) == set()
    assert crawl.work([(0, 0)] * 60) == {"rows"}


def test_a_rare_value_needs_a_longer_window() -> None:
    crawl = Crawl()
    rare = [(1, int(n % 20 == 0)) for n in range(4_000)]
    assert crawl.work(rare) == set()
    assert crawl.work([(1, 0)] * (20 * MIN_EXPECTED // 2 - 100)) == set()
    assert crawl.work([(1, 0)] * 400) == {"price"}


def test_few_values_say_nothing_and_a_new_version_starts_again() -> None:
    crawl = Crawl()
    assert crawl.work([(1, 1)] * (MIN_GONE - 10)) == set()
    assert crawl.work([(1, 0)] * 200) == set()
    crawl.work([(1, 1)] * 2_000)
    crawl.pages = crawl.records = crawl.filled = 0
    assert crawl.work([(1, 0)] * 300) == set()


def test_a_long_run_keeps_few_samples() -> None:
    crawl = Crawl()
    crawl.work([(1, 1)] * 50_000)
    assert len(crawl.detector._samples) <= 400
    assert crawl.work([(1, 0)] * 300) == {"price"}


def test_counters_of_another_version_are_not_compared_however_many_they_are() -> None:
    detector = DropDetector()

    def update(pages: int, filled: int, version: int) -> list[str]:
        counts = DataDefHealth(pages, pages, 0, {"price": pages - filled}, frozenset(), version)
        detector.start_again_if_new(counts)
        return [fall.name for fall in detector.update(counts) if fall.is_drop]

    assert update(100, 100, 1) == update(217, 217, 1) == []
    assert update(281, 40, 2) == [], "re-extracted between two samples"
    assert update(400, 159, 2) == []
    assert update(600, 159, 2) == ["price"], "within a version it is noticed"


def count(detector: DropDetector, pages: int, filled: int, *, last: bool = False) -> set[str]:
    counts = DataDefHealth(pages, pages, 0, {"price": pages - filled}, frozenset())
    return {fall.name for fall in detector.update(counts, last=last) if fall.is_drop}


def test_a_value_that_is_gone_altogether_is_noticed_among_few() -> None:
    crawl = Crawl()
    assert crawl.work([(1, 1)] * 40) == set()
    assert crawl.work([(1, 0)] * 10) == set()
    assert crawl.work([(1, 0)] * 50) == {"price"}
    assert crawl.work([(1, 1)] * 100) == set()


@pytest.mark.parametrize(
    ("good", "last", "noticed"), [(20, 20, True), (1_000, 20, True), (20, 10, False), (10, 200, False)]
)
def test_at_the_end_of_a_run_twenty_pages_are_enough(good: int, last: int, noticed: bool) -> None:
    detector = DropDetector()
    for pages in range(10, good + last, 10):
        count(detector, pages, min(pages, good))
    assert count(detector, good + last, good, last=True) == ({"price"} if noticed else set())
