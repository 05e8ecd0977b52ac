"""Converted definitions: what becomes of links, steps, keys and outputs; which tables stay, and why."""

from pathlib import Path

import pytest

from engine.defs.conversion.convert import convert
from engine.defs.loader import load
from engine.model.stored_form import to_plain

from .converted import LINKS, XPATH, Converted, converted

ONE = "items: [item: {name: x, value: y}]"
ROLLER = "class: DateRoller, item: day, inPattern: yyyy, outPattern: yyyy-MM-dd"
CONVERTER = "{jsoupDefault: {c: {class: DataConverter, previous: filter, next: appender, plugins: [plugin: {%s}]}}}"
DAY = "dims: [item: {name: day, selector: i}]"


P, BLOCK = "items: [item: {name: x, value: a, indexRange: 1-2}]", "p:nth-child(%{item.index})"
YEARS = "dims: [item: {name: y, value: v, indexRange: 2-3}]"
FACTS = "facts: [item: {name: f, value: v}, item: {name: g, value: w}]"
SELECTED = "items: [item: {name: x, selector: a"
TO_H = "query: {block: b}, items: [item: {name: x, linkGroup: h"


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (f"query: {{block: 'p:contains(x)', selector: b}}, {ONE}", "`query.block`: records have no `:contains(…)`"),
        (f"query: {{selector: 'p:matchesOwn(x)'}}, {ONE}", "'fact': records have no `:matchesOwn(…)`"),
        (f"query: {{selector: b}}, {ONE}, {YEARS}", "'y' has several indexes, and a row for each"),
        (f"query: {{}}, {ONE}, {FACTS}", "several facts"),
        (f"query: {{selector: b}}, {SELECTED}, breakAfter: z}}]", "`breakAfter` ends the rows"),
        (f"query: {{selector: b}}, {SELECTED}, prefix: z}}]", "a field has no `prefix`"),
        (f"query: {{selector: 'b[id=\"%{{item.value}}\"]'}}, {SELECTED}}}]", "changes from row to row"),
        (f"query: {{selector: b}}, {SELECTED}}}, item: {{name: y, value: v}}]", "not the only item"),
        (f"query: {{selector: b}}, {P}", "no block of its own"),
        (f"query: {{block: '{BLOCK}', selector: b}}, items: [item: {{name: x, value: ' '}}]", "be blank"),
        (f"query: {{block: '{BLOCK}', selector: p}}, {ONE}", "match the block itself"),
        (f"query: {{block: 'p:nth-child(1%{{item.index}})', selector: b}}, {P}", "must stand once"),
        (f"query: {{block: 'p, i', selector: b}}, {ONE}", "has a comma"),
        ("query: {selector: b}, items: [item: {name: x, value: a}, item: {name: x, value: v}]", "have the name 'x'"),
        ("query: {selector: b}, items: [item: {name: group, value: a}]", "have the name 'group'"),
    ],
)
def test_a_table_without_a_record_is_kept_and_runs(tmp_path: Path, table: str, reason: str) -> None:
    assert_kept(converted(tmp_path, f"{{{table}}}"), reason)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (f"query: {{block: '//p[%{{item.index}}]', selector: ../b}}, {ONE}", "leaves the block"),
        (f"query: {{block: '//tbody/tr[%{{item.index}}]', selector: td}}, {ONE}", "as browsers build it"),
        (f"query: {{block: '//p | //i', selector: b}}, {ONE}", "is no plain path"),
        (f"query: {{block: //p, selector: 'count(b)'}}, {ONE}", "is no plain path"),
    ],
)
def test_xpath_without_a_record_is_kept(tmp_path: Path, table: str, reason: str) -> None:
    assert_kept(converted(tmp_path, f"{{{table}}}", XPATH), reason)


@pytest.mark.parametrize(
    ("table", "steps", "reason"),
    [
        (DAY, f"{ROLLER}, roll: DAY_OF_MONTH=ceil", "a DateRoller rolls"),
        (DAY, ROLLER.replace("MM-dd", "yy"), "writes 2024-01-31"),
        (DAY, ROLLER.replace("yyyy,", "yyyy|yy,"), "writes 2024-01-31"),
        (DAY, ROLLER.replace("yyyy,", "d.MM.yyyy,").replace("day", "fact"), "not a value of the page"),
    ],
)
def test_dates_without_a_record_keep_their_table(tmp_path: Path, table: str, steps: str, reason: str) -> None:
    definitions = converted(tmp_path, f"{{query: {{selector: b}}, {ONE}, {table}}}", CONVERTER % steps)
    assert reason in definitions.notes("kept")[0]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("selector: a, linkBreakOn: y", "`linkBreakOn`"),
        ("value: a", "not selected"),
        ("selector: a, prefix: /other/", "no `prefix`"),
        ("selector: a, indexRange: 1-2", "and its selector none"),
        ("selector: a, filters: [filter: {type: value, pattern: y}]", "no filters"),
    ],
)
def test_links_without_a_record_keep_their_table(tmp_path: Path, item: str, reason: str) -> None:
    assert_kept(converted(tmp_path, f"{{{TO_H}, {item}}}]}}", LINKS), reason)


def assert_kept(definitions: Converted, reason: str) -> None:
    """The table is there as it was, with the reason above it."""
    assert definitions.conversion.kept == ("d",)
    [text] = definitions.notes("kept")
    assert reason in text
    assert f"  # not converted: {text}"[:80] in definitions.conversion.text()
    before, after = definitions.before.data_def("d"), definitions.after.data_def("d")
    assert before is not None
    assert after is not None
    assert to_plain(before, places=False) == to_plain(after, places=False)


def test_all_reasons_of_a_table_are_named_with_their_places(tmp_path: Path) -> None:
    text = """\
taskGroups: {g: {t: {dataDef: d, steps: jsoupDefault}}}
dataDefs:
  d:
    query: {block: "table:contains(x)", selector: td}
    items:
      - item: {name: item, selector: td, index: 2, breakAfter: [End]}
    dims:
      - item: {name: year, selector: th, indexRange: 2-6}
"""
    notes = [str(note) for note in Converted(tmp_path, text).conversion.notes]
    assert [note.partition(" note ")[0] for note in notes] == [
        f"source/job.yml:{at}" for at in ("3:3:", "6:15:", "8:15:")
    ]
    assert all(" note kept d: is not converted" in note for note in notes)


def test_links_in_the_folder_of_their_prefix(tmp_path: Path) -> None:
    items = (
        'item: {name: next, linkGroup: g, selector: "a attribute: href", prefix: [list/, /]}, '
        'item: {name: more, linkGroup: h, selector: "p:nth-child(%{index}) a attribute: data-to", indexRange: 2-3, '
        "prefix: /list/}"
    )
    definitions = converted(tmp_path, f"{{query: {{block: nav}}, items: [{items}]}}", LINKS)
    assert (
        definitions.yaml
        == """\
    links:
      - selector: nav a
        linkGroup: g
      - selector: nav p:nth-child(n+2):nth-child(-n+3) a
        attribute: data-to
        linkGroup: h
"""
    )
    assert "LocatorCreator" not in definitions.conversion.text()


def test_links_without_a_prefix_may_leave_their_host(tmp_path: Path) -> None:
    items = 'item: {name: next, linkGroup: h, selector: "a attribute: href"}'
    definitions = converted(tmp_path, f"{{query: {{block: nav}}, items: [{items}]}}", LINKS)
    assert "sameHost: false" in definitions.yaml
    assert "relative links resolve against their page; in the table against the base URL" in definitions.notes(
        "differs"
    )


def test_tables_of_links_into_one_group_are_kept_together(tmp_path: Path) -> None:
    text = f"""\
locatorGroups: {{g: {{locators: [{{url: "http://a.example/"}}]}}}}
taskGroups:
  g: {{t: {{dataDef: one, steps: {LINKS}}}, u: {{dataDef: two, steps: {LINKS}}}, v: {{dataDef: d}}}}
  h: {{t: {{dataDef: d}}}}
dataDefs:
  one: {{query: {{block: nav}}, items: [item: {{name: a, linkGroup: h, selector: a, linkBreakOn: b}}]}}
  two: {{query: {{block: nav}}, items: [item: {{name: a, linkGroup: h, selector: a}}]}}
  d: {{query: {{selector: b}}, {ONE}}}
"""
    conversion = Converted(tmp_path, text).conversion
    assert (conversion.converted, conversion.kept) == (("d",), ("one", "two"))
    assert "'one' is kept, and leads into the same group" in str(conversion.notes[1])


def test_what_is_no_table_stays(tmp_path: Path) -> None:
    text = """\
baseUrl: https://a.example/
locatorGroups:
  g: {locators: [{name: "010", url: "/{1..3}", headers: {X-A: "yes"}}]}
taskGroups:
  g: {live: P1D, maxDepth: 3, t: {dataDef: e}, u: {dataDef: d, steps: jsoupDefault}}
dataDefs:
  e:
    fields: {price: {selector: "b", match: '\\d+', default: 1e5, type: float}, "on": {value: "12:30"}}
  d: {query: {block: p, selector: b}, items: [item: {name: x, value: y}], key: [locator], expect: {rows: 5}}
hosts: {a.example: {delay: 0.50, blocked: [{status: 403}]}}
appenders: {rows: {type: jsonl}}
"""
    definitions = Converted(tmp_path, text)
    before, after = definitions.before, definitions.after
    for name in ("locator_groups", "hosts", "appenders", "base_url"):
        assert [repr(part).partition("place=")[0] for part in getattr(before, name) or ()] == [
            repr(part).partition("place=")[0] for part in getattr(after, name) or ()
        ]
    [field, on] = after.data_def("e").fields  # type: ignore[union-attr]
    assert (field.match, field.default, on.name, on.value) == (r"\d+", 1e5, "on", "12:30")
    [group] = after.task_groups
    assert (group.live, group.max_depth, [task.name for task in group.tasks]) == (86400, 3, ["t", "u"])
    assert after.data_def("d").key == ("locator",)  # type: ignore[union-attr]
    assert [expectation.rows for expectation in after.expectations] == [5]


def test_a_key_that_records_do_not_have_is_said(tmp_path: Path) -> None:
    definitions = converted(tmp_path, "{query: {selector: b}, items: [item: {name: x, value: y}], key: [item]}")
    assert "`key` is left out: it counts or names what the records do not have" in definitions.notes("differs")


def test_the_output_of_a_step_becomes_an_appender(tmp_path: Path) -> None:
    plugin = "plugin: {class: FileAppender, file: out/data.txt, plugins: [plugin: {class: CsvEncoder, delimiter: ';'}]}"
    steps = f"{{jsoupDefault: {{appender: {{class: DataAppender, plugins: [{plugin}]}}}}}}"
    definitions = converted(tmp_path, "{query: {selector: b}, items: [item: {name: x, value: y}]}", steps)
    output, rows = definitions.after.appenders
    assert (rows.type, output.type, output.path, output.delimiter) == ("csv", "scoopi", "data.txt", ";")
    assert output.data_defs == ("d",)


def test_steps_of_a_user_keep_their_table(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "own.py").write_text("class Mark:\n    def run(self, rows, context):\n        return rows\n")
    steps = "{jsoupDefault: {m: {class: own.Mark, previous: filter, next: appender}}}"
    text = f"""\
taskGroups: {{g: {{t: {{dataDef: d, steps: {steps}}}}}}}
dataDefs: {{d: {{query: {{selector: b}}, {ONE}}}}}
"""
    (tmp_path / "job.yml").write_text(text, "utf-8")
    loaded = load(tmp_path)
    conversion = convert(loaded.root, loaded.definitions)
    assert conversion.kept == ("d",)
    assert "own.Mark" in conversion.text()


def test_a_group_that_nothing_leads_to_stays(tmp_path: Path) -> None:
    definitions = converted(tmp_path, f"{{query: {{selector: b}}, {ONE}}}")
    assert [group.name for group in definitions.after.task_groups] == ["g", "h"]
    assert "h: nothing leads to this group" in [note.message for note in definitions.conversion.notes][-1]


def test_sets_of_steps_that_nothing_needs_are_left_out(tmp_path: Path) -> None:
    text = f"""\
taskGroups: {{g: {{t: {{dataDef: d, steps: two}}, u: {{dataDef: e, steps: one}}}}}}
steps: {{one: {{jsoupDefault: }}, two: {{one: }}}}
dataDefs:
  d: {{query: {{selector: b}}, {ONE}}}
  e: {{query: {{selector: b}}, {ONE}, facts: [item: {{name: a, value: b}}, item: {{name: c, value: d}}]}}
"""
    definitions = Converted(tmp_path, text)
    assert definitions.conversion.kept == ("e",)
    assert "two:" not in definitions.conversion.text()
    assert "steps:\n  one:\n    jsoupDefault: null\n" in definitions.conversion.text()
