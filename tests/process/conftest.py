"""What every test against real processes starts from: a site, a folder, and nothing alive afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .house import House
from .site import Site, serving


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def second_site() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    try:
        yield house
    finally:
        house.end_all()
