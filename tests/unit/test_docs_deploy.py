"""docs/deploy against the code: commands, names of the environment, defs, the time that a stop takes."""

import click
import pytest
import yaml
from msgspec.structs import fields

from console.cli.main import crawl_console
from engine.defs.loader import load
from engine.settings import Settings

from .doc_pages import ROOT, prose

COMPOSE = yaml.safe_load((ROOT / "docs/deploy/compose.yml").read_text("utf-8"))
MANIFESTS = {
    document["kind"]: document
    for document in yaml.safe_load_all((ROOT / "docs/deploy/kubernetes.yml").read_text("utf-8"))
}
POD = MANIFESTS["Job"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
CRAWLERS = [service for name, service in COMPOSE["services"].items() if name.startswith("crawler")]
VARIABLES = {f"CRAWL_{field.name.upper()}" for field in fields(Settings)}
OF_LIBPQ = {"PGPASSWORD"}


def commands():
    yield CONTAINER["command"]
    yield CONTAINER["readinessProbe"]["exec"]["command"]
    for crawler in CRAWLERS:
        kind, *command = crawler["healthcheck"]["test"]
        assert kind == "CMD"
        yield from (crawler["command"], command)


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_a_command_is_accepted(command):
    program, name, *arguments = command
    assert program == "crawl-console"
    found = crawl_console.get_command(click.Context(crawl_console), name)
    found.make_context(name, list(arguments), parent=click.Context(crawl_console))


def test_each_variable_is_a_setting():
    names = {variable["name"] for variable in CONTAINER["env"]} | set(MANIFESTS["Secret"]["stringData"])
    assert names <= VARIABLES
    for crawler in CRAWLERS:
        assert set(crawler["environment"]) <= VARIABLES | OF_LIBPQ


def test_a_stop_has_the_time_it_takes():
    assert POD["terminationGracePeriodSeconds"] >= Settings().stop_seconds
    for crawler in CRAWLERS:
        assert float(crawler["stop_grace_period"].removesuffix("s")) >= Settings().stop_seconds


def test_folders_of_the_commands_are_mounted():
    for mounted in [{mount["mountPath"] for mount in CONTAINER["volumeMounts"]}] + [
        {volume.split(":")[1] for volume in crawler["volumes"]} for crawler in CRAWLERS
    ]:
        assert mounted == {"/defs", "/data"}


def test_two_crawlers_have_data_dirs_of_their_own():
    folders = [volume for crawler in CRAWLERS for volume in crawler["volumes"] if volume.endswith(":/data")]
    assert len(set(folders)) == len(CRAWLERS) == 2


def test_the_defs_are_complete(tmp_path):
    for name, text in MANIFESTS["ConfigMap"]["data"].items():
        (tmp_path / name).write_text(text, "utf-8")
    loaded = load(tmp_path)
    assert loaded.warnings == ()
    assert loaded.definitions.locator_groups


def test_the_page_about_machines_names_both_files():
    page = prose((ROOT / "docs/many-machines.md").read_text("utf-8"))
    assert all(f"(deploy/{name})" in page for name in ("compose.yml", "kubernetes.yml"))
