"""NewStore for the tests of the store: each test its own data dir, copied from one that was prepared once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.store.harness import StoreHarness, template


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def new_store(prepared: Path, tmp_path: Path) -> Iterator[Callable[..., StoreHarness]]:
    """Makes new_store of any kind; the arguments are those of `StoreHarness`."""
    made: list[StoreHarness] = []

    def make(**asked: object) -> StoreHarness:
        store = StoreHarness(tmp_path / f"store{len(made)}", copy_of=prepared, **asked)  # type: ignore[arg-type]
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(new_store: Callable[..., StoreHarness]) -> StoreHarness:
    """One run, one node, hosts without delay, 64 slots."""
    return new_store()
