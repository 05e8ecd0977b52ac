"""The steps of tables: the set that a setting names, Scoopi's loaders, tables that no task uses."""

from pathlib import Path

import pytest

from engine.defs.loader import LoadedDefs, load
from engine.errors import DefsError
from engine.model.axis import AxisTable

DEFS = """\
locatorGroups: {g: {locators: [{url: "http://a.b/"}]}}
taskGroups:
  g: {t: {dataDef: d STEPS}}
dataDefs:
  d: {query: {block: table, selector: b}, items: [item: {name: item, selector: a}]}
"""
SETS = """\
steps:
  jsoupDefault:
    seeder: {class: LocatorSeeder, previous: start, next: loader}
    loader: {class: PageLoader, previous: seeder, next: parser}
    parser: {class: org.codetab.scoopi.step.parse.htmlunit.Parser, previous: loader, next: filter}
    filter: {class: DataFilter, previous: parser, next: appender}
    appender:
      class: DataAppender
      previous: filter
      next: end
      plugins: [plugin: {name: f, class: FileAppender, file: output/data.txt}]
  mine: {jsoupDefault: }
"""
LOADER = (
    ", steps: {jsoupDefault: {loader: {class: org.codetab.scoopi.step.extract.DomLoader, previous: seeder,"
    " next: parser PLUGINS}}}"
)


def loaded(folder: Path, steps: str = "", more: str = "", default_steps: str = "jsoupDefault") -> LoadedDefs:
    (folder / "a.yml").write_text(DEFS.replace("STEPS", steps) + more, "utf-8")
    return load(folder, default_steps)


def table(defs: LoadedDefs) -> AxisTable:
    data_def = defs.definitions.data_def("d")
    assert data_def is not None
    assert data_def.axis is not None
    return data_def.axis


@pytest.mark.parametrize("default_steps", ["jsoupDefault", "mine"])
def test_a_set_of_the_defs_is_that_of_tasks_without_steps(tmp_path: Path, default_steps: str) -> None:
    defs = loaded(tmp_path, more=SETS, default_steps=default_steps)
    assert table(defs).flavour == "xpath"
    assert [output.path for output in defs.definitions.appenders] == [None, "data.txt"]


def test_a_setting_that_names_a_built_in_set_leaves_the_flavour_to_it(tmp_path: Path) -> None:
    defs = loaded(tmp_path, more=SETS, default_steps="htmlUnitDefault")
    assert table(defs).flavour is None
    assert [output.path for output in defs.definitions.appenders] == [None]


def test_a_setting_that_names_no_set_is_a_problem_of_the_task(tmp_path: Path) -> None:
    with pytest.raises(DefsError) as raised:
        loaded(tmp_path, default_steps="jsoupDefualt")
    [problem] = raised.value.problems
    assert "a.yml:3:7: unknown-steps the setting default_steps names no step set: 'jsoupDefualt' (did you mean" in str(
        problem
    )


def test_a_browser_is_replaced_with_a_warning(tmp_path: Path) -> None:
    defs = loaded(tmp_path, LOADER.replace("PLUGINS", ""))
    [warning] = defs.warnings
    assert "a.yml:3:63: warning no-effect pages are fetched without a browser" in str(warning)
    [group] = defs.definitions.task_groups
    assert group.tasks[0].chain == ()


def test_a_script_for_the_browser_names_the_python_way(tmp_path: Path) -> None:
    plugin = ", plugins: [plugin: {class: org.codetab.scoopi.plugin.script.BasicScript, script: a.js}]"
    with pytest.raises(DefsError) as raised:
        loaded(tmp_path, LOADER.replace("PLUGINS", plugin))
    problem = next(p for p in raised.value.problems if p.code == "not-built")
    assert "load the page by a class of your own, see docs/loaders.md" in problem.message


def test_links_that_no_task_makes_need_no_fact(tmp_path: Path) -> None:
    links = "  l: {query: {block: ul}, items: [item: {name: link, selector: a, linkGroup: g}]}\n"
    [warning] = loaded(tmp_path, more=links).warnings
    assert "no task uses the dataDef 'l'" in str(warning)
    with pytest.raises(DefsError, match=r"a table needs `query\.selector`, or `facts`"):
        loaded(tmp_path, more=links.replace(", linkGroup: g", ""))
