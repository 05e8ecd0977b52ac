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


ONE_NODE = {
    *(
        "test_answers",
        "test_bad_pages",
        "test_checkpoints",
        "test_damaged_database",
        "test_data_dir",
        "test_inspect",
        "test_limits",
    ),
    *("test_inspect", "test_limits", "test_locators", "test_memory", "test_new_rows", "test_odd_places", "test_on_end", "test_outputs"),
    "test_whole_crawl",
}
"""Modules whose point is not what nodes do together: a process less to start in each of their crawls."""


@pytest.fixture
def house(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[House]:
    house = House(tmp_path)
    if request.node.module.__name__.rpartition(".")[2] in ONE_NODE:
        house.nodes = 1
    try:
        yield house
    finally:
        house.end_all()
