"""Fixtures for tests with real processes: a site, a project folder, and no process left afterwards."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .helper_tables import Helpers
from .project import Project
from .shared_crawl import SharedCrawls
from .shop_front import Front
from .site import Site, serve_site


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test without a mark is an extended one, so that a new one does not make `just` slower."""
    if not any(item.get_closest_marker(name) for name in ("quick", "browser", "sweep")):
        item.add_marker("extended")


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        yield site


@pytest.fixture
def second_site() -> Iterator[Site]:
    with serve_site() as site:
        yield site


@pytest.fixture
def front(project: Project, site: Site) -> Front:
    return Front(project, site)


@pytest.fixture(scope="module")
def shared_crawls(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedCrawls]:
    with ExitStack() as exits:
        yield SharedCrawls(request.module, tmp_path_factory.mktemp, exits)


ONE_NODE = {
    "test_addresses", "test_answers", "test_ask", "test_bad_defs", "test_bad_pages", "test_blocked", "test_changes",
    "test_checkpoints", "test_command_steps", "test_commands", "test_damaged_database", "test_data_dir",
    "test_documents", "test_eta", "test_export_files", "test_field_keys", "test_file_faults", "test_files",
    "test_form_ranges", "test_golden_tests", "test_health", "test_helpers", "test_helpers_stop", "test_inspect",
    "test_json_in_pages", "test_limits", "test_live", "test_loaders", "test_local_files", "test_locators", "test_lock",
    "test_locked", "test_log_rotation", "test_login_pages", "test_member_recipes", "test_memory", "test_new_rows",
    "test_next_pages", "test_nginx", "test_notify", "test_odd_places", "test_on_alarm", "test_on_end", "test_on_start",
    "test_outputs", "test_page_robots", "test_page_sizes", "test_pdf", "test_plugin_package", "test_query_keys",
    "test_recipes", "test_record_links", "test_reextraction", "test_reload", "test_reload_links",
    "test_request_variants", "test_revalidate", "test_robots", "test_routed_files", "test_routes",
    "test_scoopi_properties", "test_secrets", "test_seed", "test_senders", "test_series", "test_series_meetings",
    "test_shared_folders", "test_since", "test_sitemap_rules", "test_step_results", "test_steps", "test_stop_within",
    "test_tables", "test_task_checkpoints", "test_temporary_documents", "test_tls", "test_town", "test_trying",
    "test_users_code", "test_users_outputs", "test_usual_answers", "test_verify", "test_whole_crawl", "test_why",
}  # fmt: skip
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
