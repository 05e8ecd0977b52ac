"""Houses for the tests of the store: each test its own data dir, copied from one that was prepared once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.store.house import House, template


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def houses(prepared: Path, tmp_path: Path) -> Iterator[Callable[..., House]]:
    """Makes houses of any kind; the arguments are those of `House`."""
    made: list[House] = []

    def make(**asked: object) -> House:
        house = House(tmp_path / f"house{len(made)}", made_from=prepared, **asked)  # type: ignore[arg-type]
        made.append(house)
        return house

    yield make
    for house in made:
        house.close()


@pytest.fixture
def house(houses: Callable[..., House]) -> House:
    """One run, one node, calm hosts, 64 slots."""
    return houses()
