"""The sample of a matrix of cases that every run of the tests takes; the rest is in the sweep."""

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], *numbers: int) -> list[Any]:
    """The cases, of which those with these positions, counted from 0, are in the sample."""
    return [
        case if position in numbers else pytest.param(*_values(case), marks=pytest.mark.sweep)
        for position, case in enumerate(cases)
    ]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
