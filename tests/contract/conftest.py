"""Store harnesses for the tests: each test has its own data dir, copied from an empty one.

A chosen part runs over both engines of the store; CRAWL_TEST_STORE=postgresql runs all of it over PostgreSQL.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crawl_engine.store.db.location import Location, write_location
from tests.contract.store.harness import StoreHarness, template
from tests.contract.store.projects import Projects
from tests.postgres_server import PostgresServer

_OVER_BOTH = (
    "contract/store/db/test_named_rows.py",
    "contract/store/transactions/",
    "contract/store/tables/run/test_metrics.py",
    "contract/store/tables/run/test_page_limits.py",
    "contract/store/test_state_machine.py",
    "contract/store/test_processes.py",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the chosen part over both engines."""
    chosen = any(part in metafunc.definition.path.as_posix() for part in _OVER_BOTH)
    if chosen and "CRAWL_TEST_STORE" not in os.environ and not metafunc.definition.get_closest_marker("sqlite"):
        metafunc.parametrize("settle", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(scope="session")
def projects(postgres: PostgresServer) -> Iterator[Projects]:
    """Projects without rows on the server of the session."""
    with closing(Projects(postgres)) as projects:
        yield projects


@pytest.fixture
def settle(request: pytest.FixtureRequest) -> Iterator[Callable[[Path], None]]:
    """Gives a new data dir its store: in SQLite, or in PostgreSQL."""
    if getattr(request, "param", os.environ.get("CRAWL_TEST_STORE")) != "postgresql":
        yield lambda folder: None
        return
    projects: Projects = request.getfixturevalue("projects")
    taken: list[Location] = []

    def write(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        taken.append(projects.take())
        write_location(folder, taken[-1])

    yield write
    for location in taken:
        projects.give(location)


@pytest.fixture(autouse=True)
def _settled(request: pytest.FixtureRequest, settle: Callable[[Path], None], tmp_path: Path) -> None:
    """Tests that open their own folder have the same store."""
    if request.node.get_closest_marker("sqlite") and os.environ.get("CRAWL_TEST_STORE") == "postgresql":
        pytest.skip("about SQLite alone")
    settle(tmp_path)


@pytest.fixture
def new_store(prepared: Path, tmp_path: Path, settle: Callable[[Path], None]) -> Iterator[Callable[..., StoreHarness]]:
    """Creates harnesses; the arguments are those of `StoreHarness`."""
    created: list[StoreHarness] = []

    def make(**options: object) -> StoreHarness:
        folder = tmp_path / f"store{len(created)}"
        settle(folder)
        store = StoreHarness(folder, copy_of=prepared, **options)  # type: ignore[arg-type]
        created.append(store)
        return store

    yield make
    for store in created:
        store.close()


@pytest.fixture
def store(new_store: Callable[..., StoreHarness]) -> StoreHarness:
    """One run, one node, hosts without delay, 64 slots."""
    return new_store()


@pytest.fixture
def shared_store(projects: Projects, tmp_path: Path) -> Iterator[StoreHarness]:
    """The same in PostgreSQL."""
    folder, location = tmp_path / "shared", projects.take()
    folder.mkdir()
    write_location(folder, location)
    with closing(StoreHarness(folder)) as store:
        yield store
    projects.give(location)
