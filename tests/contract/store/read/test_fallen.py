"""A run that gives half of what an earlier one gave is a warning, however small it is."""

import pytest

from crawl_engine.store.read.data_warnings import _of_comparison
from crawl_engine.store.tables.run.runs import Baseline, GivenRows


def codes(rows: int, filled: int, rows_then: int, filled_then: int) -> list[str]:
    now = Baseline("s", {"d": GivenRows(rows, rows, {"f": filled})})
    then = Baseline("s", {"d": GivenRows(rows_then, rows_then, {"f": filled_then})})
    return [one.code for one in _of_comparison(now, "1", then)]


@pytest.mark.parametrize(
    ("now", "then", "expected"),
    [
        ((5, 5), (12, 12), ["fewer-rows"]),
        ((3, 3), (7, 7), []),  # 4 rows of 7
        ((12, 2), (12, 12), ["less-filled"]),
        ((12, 2), (12, 6), []),
        ((40, 2), (40, 4), ["less-filled"]),
        ((12, 12), (12, 12), []),
        ((0, 0), (9, 9), ["fewer-rows"]),
    ],
)
def test_half_or_less_and_five_fewer(now: tuple[int, int], then: tuple[int, int], expected: list[str]) -> None:
    assert codes(*now, *then) == expected
