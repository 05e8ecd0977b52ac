"""`persist` and `documents: false`: what is refused, what is warned of, and which rows may be copied."""

from pathlib import Path

import pytest

from engine.defs.loader import load
from engine.errors import DefsError
from engine.model.definition import DataDef, Definitions, Field, FilterRule, Task, TaskGroup
from engine.model.row_reuse import list_copied_data_defs, list_volatile_variables

from .test_strictness import load_problems, marked, write_defs

DEFS = """\
locatorGroups: {{g: {{locators: [{{url: "http://a/"}}]}}}}
taskGroups:
  g:
{keys}
dataDefs:
  d: {{fields: {{x: {{selector: b}}, y: {{value: "{value}"}}}}}}
"""


@pytest.mark.parametrize(
    "keys",
    [
        "    documents: false\n    §live: P1D\n    t: {dataDef: d}",
        "    documents: false\n    t: {dataDef: d, §persist: {data: true}}",
        "    §live: PT1S\n    t: {dataDef: d, §persist: {data: true}}\n    documents: false",
    ],
)
def test_a_group_without_documents_reuses_none(tmp_path: Path, keys: str) -> None:
    text, places = marked(DEFS.format(keys=keys, value="x"))
    problems = load_problems(write_defs(tmp_path, text))
    assert [(p.code, (p.line, p.column)) for p in problems] == [("conflict", place) for place in places]
    assert all("`documents: false`" in p.message and "remove it" in p.message for p in problems)


@pytest.mark.parametrize(
    ("keys", "kept"),
    [
        ("    t: {dataDef: d}", False),
        ("    §live: PT1S\n    t: {dataDef: d, §persist: {data: true}}", False),
        ("    documents: false\n    §live: PT1S\n    t: {dataDef: d}", None),
        ("    documents: true\n    live: PT1S\n    t: {dataDef: d, persist: {data: true}}", True),
    ],
)
def test_the_setting_documents_is_for_groups_that_do_not_say(tmp_path: Path, keys: str, kept: bool | None) -> None:
    text, places = marked(DEFS.format(keys=keys, value="x"))
    path = write_defs(tmp_path, text)
    if kept is None:
        with pytest.raises(DefsError) as raised:
            load(path, keep_documents=False)
        assert [(p.code, (p.line, p.column)) for p in raised.value.problems] == [
            ("conflict", place) for place in places
        ]
        return
    loaded = load(path, keep_documents=False)
    (group,) = loaded.definitions.task_groups
    assert (group.documents, group.tasks[0].copy_rows) == (kept, kept and "persist" in keys)
    assert [(p.code, (p.line, p.column)) for p in loaded.warnings] == [("no-effect", place) for place in places]
    assert all("write `documents: true` in 'g' to keep them" in p.message for p in loaded.warnings)


@pytest.mark.parametrize(
    "keys",
    [
        "    documents: false\n    t: {dataDef: d}",
        "    documents: false\n    t: {dataDef: d, persist: {data: false}}",
        "    documents: true\n    live: P1D\n    t: {dataDef: d, persist: {data: true}}",
    ],
)
def test_these_are_accepted(tmp_path: Path, keys: str) -> None:
    loaded = load(write_defs(tmp_path, DEFS.format(keys=keys, value="x")))
    (group,) = loaded.definitions.task_groups
    assert group.documents is ("documents: false" not in keys)
    assert group.tasks[0].copy_rows is ("data: true" in keys)
    assert loaded.warnings == ()


def test_a_bad_value_is_refused(tmp_path: Path) -> None:
    text, places = marked(
        DEFS.format(keys="    documents: §no\n    t: {dataDef: d, persist: {data: §maybe}}", value="")
    )
    problems = load_problems(write_defs(tmp_path, text))
    assert [(p.code, (p.line, p.column)) for p in problems] == [("wrong-type", place) for place in places]


@pytest.mark.parametrize("variable", ["run.id", "document.fetchedAt", "locator.name", "depth"])
def test_persist_that_has_no_effect_is_warned_of(tmp_path: Path, variable: str) -> None:
    keys = "    t: {dataDef: d, §persist: {data: true}}"
    text, [place] = marked(DEFS.format(keys=keys, value=f"%{{{variable}}}"))
    (warning,) = load(write_defs(tmp_path, text)).warnings
    assert (warning.code, (warning.line, warning.column)) == ("no-effect", place)
    assert f"`%{{{variable}}}` of 'd'" in warning.message


def test_which_variables_differ_between_jobs() -> None:
    nested = Field(name="f", selector="i", fields=(Field(name="n", value="%{locator.url}"),))
    data_def = DataDef(
        name="d",
        fields=(Field(name="u", value="%{document.url} %{document.status} %%{run.id}"), nested),
        filters=(FilterRule(field="u", pattern="x"),),
    )
    assert list_volatile_variables(data_def) == ("locator.url",)


def test_which_rows_may_be_copied() -> None:
    plain = DataDef(name="plain", fields=(Field(name="x"),))
    timed = DataDef(name="timed", fields=(Field(name="x", value="%{run.time}"),))
    links = DataDef(name="links")
    files = DataDef(name="files", fields=(Field(name="f", selector="i", fields=(Field(name="n", type="file"),)),))

    def copied(*tasks: Task) -> frozenset[str]:
        return list_copied_data_defs(
            Definitions(task_groups=(TaskGroup(name="g", tasks=tasks),), data_defs=(plain, timed, links, files)), "g"
        )

    assert copied(Task(name="a", data_def="plain")) == frozenset()
    assert copied(*(Task(name=n, data_def=n, copy_rows=True) for n in ("plain", "timed", "links", "files"))) == {
        "plain"
    }
    assert copied(Task(name="a", data_def="plain", copy_rows=True), Task(name="b", data_def="timed")) == {"plain"}
    assert copied(Task(name="a", data_def="plain", copy_rows=True), Task(name="b", data_def="plain")) == frozenset()


def test_the_keys_change_no_stored_hash() -> None:
    text = Definitions(task_groups=(TaskGroup(name="g", tasks=(Task(name="t", data_def="d"),)),)).to_json()
    assert "documents" not in text
    assert '"persist":true' in text, "as earlier versions stored it"
    assert "copy_rows" not in text
