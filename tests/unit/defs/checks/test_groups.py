"""One fetch serves all tasks of a group: `check` refuses tasks with different loaders."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.model.fingerprint import list_units
from crawl_engine.node.loading.group_loaders import find_loader

PLUGIN = """\
class One:
    def __init__(self, a=0): ...
    def load(self, request, context): ...


class Other:
    def load(self, request, context): ...


class Mark:
    def run(self, rows, context): ...
"""
DEFS = """\
locatorGroups:
  items: {{locators: [{{url: "http://a/"}}]}}
taskGroups:
  items:
    first: {{dataDef: item{0}}}
    second: {{dataDef: item{1}}}
dataDefs:
  item: {{fields: {{title: {{selector: h1}}}}}}
"""
ONE, OTHER = (f", steps: {{jsoupDefault: {{loader: {{class: shop.{name}}}}}}}" for name in ("One", "Other"))
SLOW = ", steps: {jsoupDefault: {loader: {class: shop.One, limit: 9}}}"
OPTIONS = ", steps: {jsoupDefault: {loader: {class: shop.One, options: {a: 1}}}}"
RENAMED = (
    ", steps: {jsoupDefault: {loader: {class: shop.One}, mark: {class: shop.Mark, previous: filter, next: appender}}}"
)


def folder_of(tmp_path: Path, first: str, second: str) -> Path:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "shop.py").write_text(PLUGIN)
    (tmp_path / "shop.yml").write_text(DEFS.format(first, second))
    return tmp_path


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (ONE, OTHER, "'second' is fetched by shop.Other, 'first' by shop.One"),
        (ONE, "", "'second' is fetched by the built-in loader, 'first' by shop.One"),
        ("", ONE, "'second' is fetched by shop.One, 'first' by the built-in loader"),
        (ONE, SLOW, "'second' is fetched by shop.One with other options, limit or workers, 'first' by shop.One"),
        (OPTIONS, ONE, "'second' is fetched by shop.One with other options, limit or workers, 'first' by shop.One"),
    ],
)
def test_different_loaders_of_a_group_are_refused(tmp_path: Path, first: str, second: str, text: str) -> None:
    with pytest.raises(DefsError) as refused:
        load(folder_of(tmp_path, first, second))
    [problem] = refused.value.problems
    assert problem.code == "loader-conflict"
    column = 29 if second else 5
    assert (
        str(problem)
        .partition("/")[2]
        .startswith(f"shop.yml:6:{column}: loader-conflict {text}: one fetch serves all tasks")
    ), problem
    assert "put 'second' into a group of its own" in str(problem)


@pytest.mark.parametrize("second", [ONE, RENAMED])
def test_equal_loaders_are_the_loader_of_the_group(tmp_path: Path, second: str) -> None:
    definitions = load(folder_of(tmp_path, ONE, second)).definitions
    group = definitions.task_group("items")
    loader = find_loader(group)
    assert loader is not None
    assert (loader.step.class_name, loader.title) == ("shop.One", "first/loader")
    assert loader.tasks == (("first", "loader"), ("second", "loader"))


def test_a_loader_changes_no_unit_of_extraction(tmp_path: Path) -> None:
    """A stored page is as good as before, and a page that only its loader knows is extracted without plugin code."""
    definitions = load(folder_of(tmp_path, ONE, ONE)).definitions
    group = definitions.task_group("items")
    assert group is not None
    [unit] = list_units(definitions, group)
    (tmp_path / "b").mkdir()
    plain = load(folder_of(tmp_path / "b", "", "")).definitions
    plain_group = plain.task_group("items")
    assert plain_group is not None
    assert [unit] == list_units(plain, plain_group)
    assert group.tasks[0].loader_code
    assert not group.tasks[0].code


def test_the_rows_of_a_step_stay_current_when_the_loader_changes(tmp_path: Path) -> None:
    units = []
    for name, steps in (("own", RENAMED), ("built-in", RENAMED.replace("loader: {class: shop.One}, ", ""))):
        (tmp_path / name).mkdir()
        definitions = load(folder_of(tmp_path / name, steps, steps)).definitions
        units.append(list_units(definitions, definitions.task_groups[0]))
    assert units[0] == units[1]
    assert {unit.task for unit in units[0]} == {"first", "second"}


def test_a_group_without_plugin_code_has_no_loader(tmp_path: Path) -> None:
    assert find_loader(load(folder_of(tmp_path, "", "")).definitions.task_group("items")) is None
    assert find_loader(None) is None
