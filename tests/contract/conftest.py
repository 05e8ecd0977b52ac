"""Store harnesses for the tests: each test has its own data dir, copied from an empty one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.store.harness import StoreHarness, template


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def new_store(prepared: Path, tmp_path: Path) -> Iterator[Callable[..., StoreHarness]]:
    """Creates harnesses; the arguments are those of `StoreHarness`."""
    created: list[StoreHarness] = []

    def make(**options: object) -> StoreHarness:
        store = StoreHarness(tmp_path / f"store{len(created)}", copy_of=prepared, **options)  # type: ignore[arg-type]
        created.append(store)
        return store

    yield make
    for store in created:
        store.close()


@pytest.fixture
def store(new_store: Callable[..., StoreHarness]) -> StoreHarness:
    """One run, one node, hosts without delay, 64 slots."""
    return new_store()
