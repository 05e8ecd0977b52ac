"""Outputs that steps add by the plugins of their appender."""

from pathlib import Path

import pytest

from crawl_engine.append.formats.writer import create_encoder
from crawl_engine.defs.loader import LoadedDefs, load
from crawl_engine.errors import DefsError
from crawl_engine.supervise.outputs import output_settings

DEFS = """\
locatorGroups: {g: {locators: [{url: "http://a.b/"}]}}
taskGroups:
  g:
    one: {dataDef: a, steps: set}
    two: {dataDef: b, steps: OTHER}
dataDefs:
  a: {fields: {x: {selector: b}}}
  b: {fields: {x: {selector: b}}}
steps:
  set:
    jsoupDefault:
      appender:
        class: org.codetab.scoopi.step.load.DataAppender
        previous: filter
        next: end
        plugins: [plugin: {PLUGIN}]
"""
FILE = "name: dataFile, class: org.codetab.scoopi.plugin.appender.FileAppender, file: output/data.txt"
ENCODER = 'plugins: [plugin: {name: csv, class: org.codetab.scoopi.plugin.encoder.CsvEncoder, delimiter: ";"}]'


def loaded(tmp_path: Path, plugin: str, other: str = "jsoupDefault") -> LoadedDefs:
    (tmp_path / "a.yml").write_text(DEFS.replace("PLUGIN", plugin).replace("OTHER", other), "utf-8")
    return load(tmp_path)


def test_a_file_appender_adds_an_output_beside_the_others(tmp_path: Path) -> None:
    rows, added = loaded(tmp_path, f"{FILE}, {ENCODER}").definitions.appenders
    assert rows.name == "rows"
    assert (added.name, added.type, added.path) == ("dataFile-a", "scoopi", "data.txt")
    assert (added.delimiter, added.data_defs) == (";", ("a",))


def test_data_defs_that_share_a_file_get_one_each(tmp_path: Path) -> None:
    _, *added = loaded(tmp_path, FILE, other="set").definitions.appenders
    assert [(one.path, one.data_defs, one.delimiter) for one in added] == [
        ("data-a.txt", ("a",), "|"), ("data-b.txt", ("b",), "|"),
    ]  # fmt: skip


@pytest.mark.parametrize("written", ["true", "false"])
def test_tags_are_written_with_a_warning(tmp_path: Path, written: str) -> None:
    result = loaded(tmp_path, f"{FILE}, {ENCODER.replace('delimiter', f'includeTags: {written}, delimiter')}")
    _, added = result.definitions.appenders
    assert added.include_tags == (written == "true")
    data_def = result.definitions.data_def("a")
    assert data_def is not None
    columns = ["locator", "group", "item", "fact"]
    encoder = create_encoder("scoopi", {**output_settings(data_def, added), "columns": columns})
    line = encoder.rows(['{"locator": "acme", "group": "g", "item": "x", "fact": "7"}']).decode()
    assert line == ("acme;g;1;1;1;x;7\n" if added.include_tags else "acme;g;x;7\n")
    messages = [warning.message for warning in result.warnings if "includeTags" in warning.message]
    assert len(messages) == added.include_tags


def test_a_list_appender_is_a_warning(tmp_path: Path) -> None:
    result = loaded(tmp_path, "class: ListAppender")
    assert len(result.definitions.appenders) == 1
    [warning] = result.warnings
    assert warning.message == "appender: a ListAppender has no meaning here: rows are kept in any case"


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        ("class: FileAppendr, file: x", "unknown-step-class appender: unknown plugin 'FileAppendr' (did you mean"),
        ("class: FileAppender", "missing-key appender: a FileAppender needs `file`"),
        ("class: FileAppender, file: '..'", "missing-key appender: a FileAppender needs `file`"),
        ("class: FileAppender, file: x, fiel: y", "unknown-key appender: unknown key 'fiel' in FileAppender"),
        ("class: FileAppender, file: x, plugins: [a]", "wrong-type appender: an entry of `plugins` must be"),
        (f"{FILE}, {ENCODER.replace('CsvEncoder', 'XmlEncoder')}", "unknown-step-class appender: unknown plugin"),
        (f"{FILE}, {ENCODER.replace(';', ';;')}", "out-of-range appender: `delimiter` must be one character"),
    ],
)
def test_a_problem_is_reported_at_the_step(tmp_path: Path, plugin: str, expected: str) -> None:
    with pytest.raises(DefsError) as caught:
        loaded(tmp_path, plugin)
    texts = [f"{p.line}:{p.column}: {p.code} {p.message}" for p in caught.value.problems]
    assert [text for text in texts if text.startswith(f"12:7: {expected}")], texts
