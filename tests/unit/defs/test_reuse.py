"""The keys by which groups reuse stored pages: `live`, `recrawl`, `revalidate`, `documents`; `persist`."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.model.definition import Task
from crawl_engine.model.locator import Recrawl
from tests.unit.defs.language.test_strictness import load_problems, marked, write_defs

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
        "    §live: PT1S\n    t: {dataDef: d}\n    documents: false",
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
        ("    §live: PT1S\n    t: {dataDef: d}", False),
        ("    documents: false\n    §live: PT1S\n    t: {dataDef: d}", None),
        ("    documents: true\n    live: PT1S\n    t: {dataDef: d}", True),
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
    assert group.documents == kept
    assert [(p.code, (p.line, p.column)) for p in loaded.warnings] == [("no-effect", place) for place in places]
    assert all("write `documents: true` in 'g' to keep them" in p.message for p in loaded.warnings)


@pytest.mark.parametrize(
    "keys",
    [
        "    documents: false\n    t: {dataDef: d}",
        "    documents: false\n    t: {dataDef: d, persist: {data: false}}",
        "    documents: false\n    t: {dataDef: d, persist: {data: true}}",
        "    documents: true\n    live: P1D\n    t: {dataDef: d, persist: {data: true}}",
    ],
)
def test_these_are_accepted(tmp_path: Path, keys: str) -> None:
    loaded = load(write_defs(tmp_path, DEFS.format(keys=keys, value="x")))
    (group,) = loaded.definitions.task_groups
    assert group.documents is ("documents: false" not in keys)
    assert group.tasks == (Task(name="t", data_def="d", place=group.tasks[0].place),), "`persist` has no effect"
    assert loaded.warnings == ()


def test_a_bad_value_is_refused(tmp_path: Path) -> None:
    text, places = marked(
        DEFS.format(keys="    documents: §no\n    t: {dataDef: d, persist: {data: §maybe}}", value="")
    )
    problems = load_problems(write_defs(tmp_path, text))
    assert [(p.code, (p.line, p.column)) for p in problems] == [("wrong-type", place) for place in places]


RECRAWL = """\
locatorGroups: {g: {locators: [{url: "http://a/"}]}}
taskGroups: {g: {KEYS, t: {dataDef: d}}}
dataDefs: {d: {fields: {x: {selector: b}}}}
"""


@pytest.mark.parametrize(
    ("keys", "code", "text"),
    [
        ("revalidate: §1", "wrong-type", "true or false"),
        ("§revalidate: true, documents: false", "conflict", "`revalidate` reuses stored pages"),
        ("recrawl: §true", "wrong-type", "a mapping"),
        ("recrawl: {min: §1h}", "bad-duration", "not an ISO 8601 duration"),
        ("recrawl: {§mix: PT1H}", "unknown-key", "did you mean 'min'"),
        ("recrawl: {adapt: §often}", "wrong-type", "true or false"),
        ("recrawl: {§min: P2D, max: P1D}", "conflict", "`min` (172800 s) is longer than `max` (86400 s)"),
        ("recrawl: {§max: PT1S}", "conflict", "`min` (3600 s) is longer than `max` (1 s)"),
        ("recrawl: {min: PT1H}, §live: P1D", "conflict", "`recrawl` says for each page how long it stays"),
        ("§recrawl: {min: PT1H}, documents: false", "conflict", "`recrawl` reuses stored pages"),
    ],
)
def test_a_mistake_in_a_key_of_recrawl_is_one_problem(tmp_path: Path, keys: str, code: str, text: str) -> None:
    written, [place] = marked(RECRAWL.replace("KEYS", keys))
    [problem] = load_problems(write_defs(tmp_path, written))
    assert (problem.code, (problem.line, problem.column)) == (code, place)
    assert text in problem.message


def test_the_keys_of_recrawl_are_read(tmp_path: Path) -> None:
    written = RECRAWL.replace("KEYS", "revalidate: true, recrawl: {min: PT10M, adapt: false}")
    loaded = load(write_defs(tmp_path, written))
    [group] = loaded.definitions.task_groups
    assert loaded.warnings == ()
    assert group.revalidate
    assert group.recrawl == Recrawl(min=600.0, max=30 * 86_400.0, adapt=False)


@pytest.mark.parametrize("name", ["canonical", "revalidate", "recrawl"])
def test_a_task_keeps_a_name_that_became_a_key(tmp_path: Path, name: str) -> None:
    loaded = load(write_defs(tmp_path, RECRAWL.replace("KEYS, t", name)))
    [group] = loaded.definitions.task_groups
    assert [(task.name, task.data_def) for task in group.tasks] == [(name, "d")]
    assert (group.canonical, group.revalidate, group.recrawl) == (False, False, None)
    written, [place] = marked(RECRAWL.replace("KEYS, t: {dataDef: d}", f"{name}: {{dataDef: d, §persits: 1}}"))
    [problem] = load_problems(write_defs(tmp_path, written))
    assert (problem.code, (problem.line, problem.column)) == ("unknown-key", place)


def test_the_time_between_two_requests_follows_the_page() -> None:
    recrawl = Recrawl(min=60.0, max=600.0)
    assert recrawl.clamp(None) == 60.0
    assert [recrawl.following(seconds, changed=False) for seconds in (None, 60.0, 120.0, 400.0, 9_000.0)] == [
        120.0, 120.0, 240.0, 600.0, 600.0
    ]  # fmt: skip
    assert [recrawl.following(seconds, changed=True) for seconds in (None, 60.0, 240.0, 9_000.0)] == [
        60.0, 60.0, 120.0, 300.0
    ]  # fmt: skip
    assert Recrawl(min=60.0, adapt=False).following(500.0, changed=False) == 60.0
