"""Fixtures for tests with real processes: a site, a project folder, and no process left afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .helper_tables import Helpers
from .project import Project
from .site import Site, serve_site


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        yield site


@pytest.fixture
def second_site() -> Iterator[Site]:
    with serve_site() as site:
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
    *(
        "test_inspect",
        "test_limits",
        "test_locators",
        "test_memory",
        "test_new_rows",
        "test_odd_places",
        "test_on_end",
        "test_outputs",
        "test_shared_folders",
    ),
    *("test_helpers", "test_helpers_stop", "test_on_start"),
    *("test_page_robots", "test_robots", "test_whole_crawl"),
}
"""Test modules that need only one node; each of their crawls starts one process less."""


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Project]:
    project = Project(tmp_path)
    if request.node.module.__name__.rpartition(".")[2] in ONE_NODE:
        project.nodes = 1
    try:
        yield project
    finally:
        project.kill_all()


@pytest.fixture
def helpers(project: Project) -> Helpers:
    return Helpers(project)
