"""Checkpoints of tasks in real crawls: two chains in one group, an edited plugin, a renamed task."""

import json
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from .project import Project, until
from .site import Page, Site, html
from .stepped_shop import SteppedShop

pytestmark = pytest.mark.timeout(120)

SHARED = {"items/seeder", "items/loader"}
OWN = {f"items/own/{step}" for step in ("parser", "filter", "mark", "appender")}
PLAIN = {f"items/plain/{step}" for step in ("parser", "filter", "appender")}


def state(project: Project) -> dict[str, dict[str, Any]]:
    """The lines of state.jsonl by key."""
    path = project.data / "state.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    return {"/".join(line[name] for name in ("group", "task", "step_name") if line[name]): line for line in lines}


def keys_by(project: Project, name: str) -> dict[Any, set[str]]:
    keys: dict[Any, set[str]] = {}
    for key, line in state(project).items():
        keys.setdefault(line[name], set()).add(key)
    return keys


def execute(project: Project, sql: str, *parameters: object) -> None:
    with closing(sqlite3.connect(project.data / "crawl.db")) as db, db:
        db.execute(sql, parameters)


@pytest.fixture
def shop(project: Project, site: Site) -> SteppedShop:
    """A shop whose group has a task with a step of its own, and one with the default chain."""
    shop = SteppedShop(project, site, size=12)
    project.nodes = 1
    shop.write()
    return shop


def hold_last_item(site: Site, *, delay: float) -> None:
    site["/i/11"] = Page(html("<h1>Item 11</h1><i>11.50</i>"), delay=delay)


@pytest.mark.quick
def test_an_edited_plugin_makes_the_entries_of_its_task_invalid_until_its_pages_are_extracted(
    shop: SteppedShop, project: Project, site: Site
) -> None:
    hold_last_item(site, delay=6)
    running = project.start()
    assert until(lambda: project.status()["jobs"]["done"] == 11)
    assert set(state(project)) == SHARED | OWN | PLAIN
    before = {key: line["content_hash"] for key, line in state(project).items()}
    shop.write_plugin(3)
    assert until(lambda: "invalid" in keys_by(project, "validation_status"))
    assert keys_by(project, "validation_status")["invalid"] == {"items/own/mark", "items/own/appender"}
    assert state(project)["items/own/mark"]["reason"] == "its code or options changed with defs v2"
    assert state(project)["items/own/appender"]["reason"] == "depends on items/own/mark, which changed with defs v2"
    after = {key: line["content_hash"] for key, line in state(project).items()}
    assert {key for key in after if after[key] != before[key]} == {"items/own/mark"}
    assert running.wait().code == 0
    assert keys_by(project, "validation_status") == {"valid": SHARED | OWN | PLAIN}
    assert keys_by(project, "completed") == {True: SHARED | OWN | PLAIN}
    assert project.count_rows("scored", "named") == shop.scored(factor=3) + shop.named()
    table = project.run_with_data("state").out
    assert "TASK" in table.splitlines()[1]
    assert any(line.split()[:4] == ["items", "own", "mark", "yes"] for line in table.splitlines())


@pytest.mark.sweep
def test_a_renamed_task_takes_the_place_of_its_entries(shop: SteppedShop, project: Project, site: Site) -> None:
    hold_last_item(site, delay=3)
    running = project.start("--grace", "0.2")
    assert until(lambda: project.status()["jobs"]["done"] == 11)
    text = (project.defs / "crawl.yml").read_text("utf-8")
    project.write(text.replace("plain: {dataDef", "simple: {dataDef"))
    simple = {key.replace("plain", "simple") for key in PLAIN}
    assert until(lambda: simple <= set(state(project)))
    assert running.wait().code == 0
    assert keys_by(project, "validation_status") == {"valid": SHARED | OWN | simple}
    done = project.run_with_data("state", "--verify")
    assert done.code == 0, done.out
    assert project.count_rows("scored", "named") == shop.scored() + shop.named()


@pytest.mark.sweep
def test_a_changed_row_concerns_the_tasks_of_its_data_def(shop: SteppedShop, project: Project, site: Site) -> None:
    project.crawl()
    [(row,)] = project.query(
        "SELECT min(r.id) FROM rows r JOIN data_defs d ON d.id = r.data_def WHERE d.name = 'named'"
    )
    execute(project, "UPDATE rows SET data = '{}' WHERE id = ?", row)
    output = project.output("scored.csv")
    output.write_bytes(output.read_bytes().replace(b"Item 3", b"Item 4", 1))
    done = project.run_with_data("state", "--verify", "--json")
    assert done.code == 1
    result = json.loads(done.out)
    [group] = result["groups"]
    assert group["steps"] == {"plain/parser": "rows: 1 of 24 differs from its checkpoint"}
    [damaged] = [Path(output["path"]) for output in result["outputs"] if output["status"] == "invalid"]
    assert damaged.name == "scored.csv"
    site.clear_log()
    for command in result["commands"]:
        assert project.run_with_data(*shlex.split(command)[1:]).code == 0, command
    assert site.paths == []
    assert keys_by(project, "validation_status") == {"valid": SHARED | OWN | PLAIN}
    assert project.count_rows("scored", "named") == shop.scored() + shop.named()
    assert project.run_with_data("state", "--verify").code == 0


def test_lost_rows_concern_all_tasks_of_their_group(shop: SteppedShop, project: Project) -> None:
    project.crawl()
    unit = "SELECT min(r.id) FROM rows r JOIN data_defs d ON d.id = r.data_def WHERE d.name = 'scored'"
    execute(project, f"DELETE FROM rows WHERE id = ({unit})")
    result = json.loads(project.run_with_data("state", "--verify", "--json").out)
    [group] = result["groups"]
    assert group["steps"] == dict.fromkeys(("own/parser", "plain/parser"), "rows: 23 instead of 24")
    for command in result["commands"]:
        assert project.run_with_data(*shlex.split(command)[1:]).code == 0, command
    assert project.count_rows("scored", "named") == shop.scored() + shop.named()
    assert project.run_with_data("state", "--verify").code == 0
