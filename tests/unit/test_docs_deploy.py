"""docs/deploy against the code: commands, names of the environment, defs, the time that a stop takes."""

import json
import re
import tomllib

import click
import pytest
import yaml
from msgspec.structs import fields

from crawl_console.cli.main import crawl_console
from crawl_engine.browser import find
from crawl_engine.defs.loader import load
from crawl_engine.settings import Settings

from .doc_pages import ROOT, blocks, prose

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


CONTAINERFILE = (ROOT / "docs/deploy/Containerfile").read_text("utf-8")
SERVICES = COMPOSE["services"]
IMAGES = {name: service for name, service in SERVICES.items() if "build" in service}
EXTERNAL = {"alerts.yml", "defs", "grafana.json", "prometheus.yml"}
"""What compose.yml mounts from beside it; `defs` is of the user."""


def instructions():
    """The instructions of the Containerfile with their words."""
    text = re.sub(r"^#.*\n", "", CONTAINERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]


def value_of(name):
    return [rest for instruction, rest in instructions() if instruction == name][-1]


def test_the_image_is_slim_not_root_and_reaps():
    assert all("-slim" in rest for name, rest in instructions() if name == "FROM")
    assert value_of("USER") == "1000:1000"
    assert json.loads(value_of("ENTRYPOINT")) == ["tini", "--"]
    assert value_of("STOPSIGNAL") == "SIGTERM"
    assert "127.0.0.1:8787/health" in value_of("HEALTHCHECK")
    (extras,) = re.findall(r"^ARG EXTRAS=(.*)$", CONTAINERFILE, re.MULTILINE)
    assert set(extras.split(",")) <= set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )


def test_the_image_with_a_browser_has_one_that_is_found_and_what_its_sandbox_calls():
    (extras,) = re.findall(r"--build-arg EXTRAS=(\S+)", CONTAINERFILE)
    (package,) = re.findall(r"--build-arg PACKAGES=(\S+)", CONTAINERFILE)
    assert "browser" in extras.split(",")
    assert package in find.SHELLS, "the package has a program of its name"
    (entry,) = blocks((ROOT / "docs/defs/browser.md").read_text("utf-8"), "json")
    assert json.loads(entry) == {"names": ["clone", "unshare", "chroot"], "action": "SCMP_ACT_ALLOW"}


def test_services_refer_to_what_exists():
    volumes, configs = set(COMPOSE["volumes"]), set(COMPOSE["configs"])
    used = set()
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", {})) <= set(SERVICES), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            used.add(source)
            assert source.removeprefix("./") in EXTERNAL if source.startswith("./") else source in volumes
        assert {config["source"] for config in service.get("configs", ())} <= configs
        if "network_mode" in service:
            assert service["network_mode"].removeprefix("service:") in SERVICES
    assert volumes <= used


def test_services_of_ours_have_no_rights_and_time_to_stop():
    assert set(IMAGES) == {"crawler-1", "crawler-2", "serve", "token"}
    for service in IMAGES.values():
        assert (ROOT / service["build"]["dockerfile"]).is_file()
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["stop_grace_period"] == "30s"


def test_ports_are_published_to_this_machine_alone():
    for service in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_the_data_source_and_the_board_fit():
    source, boards = (yaml.safe_load(COMPOSE["configs"][name]["content"]) for name in ("datasource", "boards"))
    assert source["datasources"][0]["url"] == "http://serve:9090"
    folder = boards["providers"][0]["options"]["path"]
    assert any(volume.split(":")[1].startswith(folder) for volume in SERVICES["grafana"]["volumes"])
    assert SERVICES["prometheus"]["network_mode"] == "service:serve"


def commands():
    yield json.loads(value_of("CMD"))
    yield SERVICES["serve"]["command"]
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
