"""The steps of tables: the set that a setting names, Scoopi's loaders, tables that no task uses."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import LoadedDefs, load
from crawl_engine.errors import DefsError
from crawl_engine.model.axis import AxisTable

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
    assert "a.yml:3:63: warning no-effect DomLoader is PageLoader here, which uses no browser" in str(warning)
    [group] = defs.definitions.task_groups
    assert group.tasks[0].chain == ()


def test_a_script_for_the_browser_names_the_python_way(tmp_path: Path) -> None:
    plugin = ", plugins: [plugin: {class: org.codetab.scoopi.plugin.script.BasicScript, script: a.js}]"
    with pytest.raises(DefsError) as raised:
        loaded(tmp_path, LOADER.replace("PLUGINS", plugin))
    problem = next(p for p in raised.value.problems if p.code == "not-built")
    assert "load the page by a class of your own, see docs/loaders.md" in problem.message


@pytest.mark.parametrize(
    ("default_steps", "block", "expected"),
    [
        ("jsoupDefault", "//table", "query.block: not a CSS selector: '//table'; its steps are jsoupDefault"),
        ("htmlUnitDefault", "ul#a", "its steps are htmlUnitDefault, and for CSS the task needs the other"),
        ("jsoupDefault", "td:matchesOwn((x)", "query.block: "),
    ],
)  # fmt: skip
def test_selectors_fit_the_steps_of_their_task(tmp_path: Path, default_steps: str, block: str, expected: str) -> None:
    (tmp_path / "a.yml").write_text(DEFS.replace("STEPS", "").replace("block: table", f'block: "{block}"'), "utf-8")
    with pytest.raises(DefsError) as raised:
        load(tmp_path, default_steps)
    assert any(p.code == "bad-selector" and expected in p.message for p in raised.value.problems)


def test_a_converter_of_no_axis_is_refused_at_its_step(tmp_path: Path) -> None:
    roller = "plugin: {class: DateFormater, item: itme, inPattern: yyyy, outPattern: yy}"
    step = f"{{class: DataConverter, previous: filter, next: appender, plugins: [{roller}]}}"
    steps = f", steps: {{jsoupDefault: {{c: {step}}}}}"
    with pytest.raises(DefsError) as raised:
        loaded(tmp_path, steps)
    [problem] = raised.value.problems
    assert (problem.line, problem.column) == (3, 47)
    assert "no axis 'itme' to convert (did you mean 'item'?)" in problem.message


def test_an_open_range_of_constants_alone_is_refused(tmp_path: Path) -> None:
    text = (
        DEFS.replace("STEPS", "")
        .replace("selector: b}", "block: b}")
        .replace("selector: a", "value: x, indexRange: 2-")
    )
    text = text.replace("{block: table, block: b}", "{block: table}").replace(
        "}]}", "}], facts: [item: {name: f, value: y}]}"
    )
    (tmp_path / "a.yml").write_text(text, "utf-8")
    with pytest.raises(DefsError, match="'item' has no end: nothing is selected"):
        load(tmp_path)


def test_links_that_no_task_makes_need_no_fact(tmp_path: Path) -> None:
    links = "  l: {query: {block: ul}, items: [item: {name: link, selector: a, linkGroup: g}]}\n"
    [warning] = loaded(tmp_path, more=links).warnings
    assert "no task uses the dataDef 'l'" in str(warning)
    with pytest.raises(DefsError, match=r"a table needs `query\.selector`, or `facts`"):
        loaded(tmp_path, more=links.replace(", linkGroup: g", ""))
