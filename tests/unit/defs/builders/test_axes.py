"""Tables in the defs: what is read, and what is reported where."""

from pathlib import Path

import pytest

from crawl_engine.defs.builders.table_settings import complete_tables
from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.model.axis import AxisTable, DateConverter
from crawl_engine.model.definition import Definitions
from crawl_engine.settings import Settings

DEFS = """\
locatorGroups: {g: {locators: [{url: "http://a.b/"}]}}
taskGroups:
  g: {t: {dataDef: d, steps: STEPS}}
  other: {t: {dataDef: e}}
dataDefs:
  e: {fields: {x: {selector: b}}}
  d:
    query: {block: "table:contains(x)", selector: "td:nth-child(%{dim.year.index})"}
    items:
      - item: {name: item, selector: a, ITEM}
    dims: [item: {name: year, value: y, indexRange: 2-3}]
"""
CONVERTER = "jsoupDefault: {c: {class: DataConverter, previous: filter, next: appender, plugins: [plugin: {PLUGIN}]}}"
ROLLER = 'class: DateRoller, item: year, inPattern: "yy|MMM", outPattern: yyyy, roll: "DAY_OF_MONTH=ceil"'
LINKS = "jsoupDefault: {l: {class: LocatorCreator, previous: parser, next: seeder}}"


def loaded(tmp_path: Path, item: str = "index: 1", steps: str = "jsoupDefault") -> Definitions:
    text = DEFS.replace("ITEM", item).replace("STEPS", f"{{{steps}}}" if ":" in steps else steps)
    (tmp_path / "a.yml").write_text(text, "utf-8")
    return load(tmp_path).definitions


def table(definitions: Definitions) -> AxisTable:
    data_def = definitions.data_def("d")
    assert data_def is not None
    assert data_def.axis is not None
    return data_def.axis


@pytest.mark.parametrize(
    ("item", "first", "last"),
    [
        ("index: 4", 4, 4), ("indexRange: 2-6", 2, 6), ("indexRange: 5-", 5, None), ("indexRange: 3", 3, 3),
        ("index: 5, breakAfter: [z]", 5, None), ("indexRange: 5-, breakAfter: z", 5, None), ("match: m", 1, 1),
    ],
)  # fmt: skip
def test_ranges(tmp_path: Path, item: str, first: int, last: int | None) -> None:
    [axis] = table(loaded(tmp_path, item)).items
    assert (axis.first, axis.last) == (first, last)


def test_columns_flavour_and_default_chain(tmp_path: Path) -> None:
    definitions = loaded(tmp_path, steps="jsoupDefault")
    data_def = definitions.data_def("d")
    assert data_def is not None
    assert data_def.columns == ("locator", "group", "item", "year", "fact")
    assert table(definitions).flavour == "css"
    [group, _] = definitions.task_groups
    assert group.tasks[0].chain == ()


def test_converters_and_links_are_in_the_plan(tmp_path: Path) -> None:
    definitions = loaded(tmp_path, steps=CONVERTER.replace("PLUGIN", ROLLER))
    expected = DateConverter(column="year", in_patterns=("yy", "MMM"), out_pattern="yyyy", roll="ceil")
    assert table(definitions).converters == (expected,)
    linking = loaded(tmp_path, "linkGroup: other", LINKS)
    data_def = linking.data_def("d")
    assert data_def is not None
    assert data_def.columns == ()
    assert [link.group for link in data_def.links] == ["other"]
    assert table(linking).makes_links
    assert linking.task_groups[0].tasks[0].chain == ()


def test_settings_complete_a_table(tmp_path: Path) -> None:
    text = DEFS.replace("ITEM", "index: 1").replace(", steps: STEPS", "").replace("  other: {t: {dataDef: e}}\n", "")
    (tmp_path / "a.yml").write_text(text, "utf-8")
    settings = Settings(
        default_steps="htmlUnitDefault", fact_blank="~", fact_not_found="?", date_time_pattern="yyyy",
        base_url="http://me:secret@b.c/",
    )  # fmt: skip
    completed = table(complete_tables(load(tmp_path).definitions, settings))
    assert (completed.flavour, completed.fact_blank, completed.fact_not_found) == ("xpath", "~", "?")
    assert (completed.date_pattern, completed.base_url) == ("yyyy", "http://b.c/")


@pytest.mark.parametrize(
    ("item", "pattern", "run_time", "expected"),
    [
        ("script: document.getFromDate()", None, None, None),
        ("script: document.getFromDate()", None, "2024-01-31T10:05:00+01:00", "2024-01-31T09:05:00Z"),
        ("script: document.getFromDate()", "dd.MM.yy", "31.01.24", "31.01.24"),
        ("script: document.getFromDate()", "dd.MM.yy", "2024-01-31", "31.01.24"),
        ("index: 1", "dd.MM.yy", "31.01.24", None),
    ],
)
def test_the_run_time_replaces_the_fetch_date(
    tmp_path: Path, item: str, pattern: str | None, run_time: str | None, expected: str | None
) -> None:
    settings = Settings(date_time_pattern=pattern, run_time=run_time)
    assert table(complete_tables(loaded(tmp_path, item), settings)).from_date == expected


@pytest.mark.parametrize(
    ("item", "steps", "expected"),
    [
        ("indexRange: 6-2", "jsoupDefault", "10:53: out-of-range `indexRange` must be like 2-6, 5- or 3"),
        ("index: none", "jsoupDefault", "10:48: out-of-range `index` must be a number from 1"),
        ("indexRange: 2-3, breakAfter: [z]", "jsoupDefault", "10:58: conflict `breakAfter` needs `index: N`"),
        ("script: 'a()'", "jsoupDefault", "10:41: not-built JavaScript is not run"),
        ("selektor: a", "jsoupDefault", "10:41: unknown-key unknown key 'selektor'"),
        ("filters: [a]", "jsoupDefault", "10:51: wrong-type an entry of `filters` must be"),
        ("filters: [{filter: {type: match, pattern: '('}}]", "jsoupDefault", "10:83: bad-pattern not a regular"),
        ("prefix: {a: b}", "jsoupDefault", "10:49: wrong-type `prefix` must be a text or a list"),
        ("linkGroup: otter", "jsoupDefault", "10:52: unknown-group unknown task group 'otter'"),
        ("match: '%{dim.yaer.index}'", "jsoupDefault", None),
        ("index: 1", CONVERTER.replace("PLUGIN", "class: DateRoler"), "unknown-step-class c: unknown"),
        ("index: 1", CONVERTER.replace("PLUGIN", ROLLER.replace("yyyy", "QQQ")), "bad-format c: 'QQQ'"),
        ("index: 1", CONVERTER.replace("PLUGIN", ROLLER.replace("ceil", "up")), "out-of-range c: `roll` must be"),
        ("index: 1", CONVERTER.replace("PLUGIN", "class: DateRoller, item: a"), "missing-key c: DateRoller"),
    ],
)  # fmt: skip
def test_a_problem_has_its_place(tmp_path: Path, item: str, steps: str, expected: str | None) -> None:
    if expected is None:
        loaded(tmp_path, item, steps)
        return
    with pytest.raises(DefsError) as caught:
        loaded(tmp_path, item, steps)
    texts = [f"{p.line}:{p.column}: {p.code} {p.message}" for p in caught.value.problems]
    assert [text for text in texts if expected in text], texts


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("year.index", "yaer.index", "7:3: unknown-variable fact: unknown variable `%{dim.yaer.index}`"),
        ("td:nth", "td:::nth", "7:3: bad-selector fact: not a CSS selector"),
        (":contains(x)", ":contains(x", "7:3: bad-selector query.block: a parenthesis is not closed"),
        ("name: year", "name: group", "7:3: bad-name a dim cannot be named `group`"),
        (", selector: \"td:nth-child(%{dim.year.index})\"", "", "7:3: missing-key a table needs"),
        ("    dims:", "    fields: {a: {selector: b}}\n    dims:", "11:5: conflict `fields`"),
        ("other: {t: {dataDef: e}}", "other: {t: {dataDef: d, steps: htmlUnitDefault}}", "4:11: conflict the tasks"),
        ("x: {selector: b}", "x: {selector: b}}, query: {selector: c", "6:43: conflict `selector`"),
    ],
)  # fmt: skip
def test_a_problem_of_the_table_has_its_place(tmp_path: Path, old: str, new: str, expected: str) -> None:
    text = DEFS.replace("ITEM", "index: 1").replace("STEPS", "jsoupDefault")
    assert text.count(old) == 1
    (tmp_path / "a.yml").write_text(text.replace(old, new), "utf-8")
    with pytest.raises(DefsError) as caught:
        load(tmp_path)
    texts = [f"{p.line}:{p.column}: {p.code} {p.message}" for p in caught.value.problems]
    assert [text for text in texts if text.startswith(expected)], texts


def test_a_step_in_javascript_names_the_python_way(tmp_path: Path) -> None:
    scripter = "{class: org.codetab.scoopi.step.script.Scripter, previous: filter, next: appender}"
    with pytest.raises(DefsError) as caught:
        loaded(tmp_path, steps=f"jsoupDefault: {{s: {scripter}}}")
    assert [p.code for p in caught.value.problems] == ["not-built"]
    assert "write the step in Python" in caught.value.problems[0].message


def test_a_converter_on_records_is_refused(tmp_path: Path) -> None:
    text = DEFS.replace("ITEM", "index: 1").replace("STEPS", "jsoupDefault")
    steps = f"{{{CONVERTER.replace('PLUGIN', ROLLER)}}}"
    (tmp_path / "a.yml").write_text(text.replace("dataDef: e", f"dataDef: e, steps: {steps}"), "utf-8")
    with pytest.raises(DefsError) as caught:
        load(tmp_path)
    assert [p.message for p in caught.value.problems] == ["a DataConverter works on tables; use `convert` on a field"]
