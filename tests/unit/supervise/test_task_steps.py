"""The checkpoints of tasks with chains of their own, in one group: keys, dependencies, and what a change concerns."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from crawl_engine.defs.builders.steps import default_chain
from crawl_engine.model.definition import DataDef, Definitions, Field, FilterRule, Task, TaskGroup
from crawl_engine.model.locator import Locator, LocatorGroup
from crawl_engine.model.step import ChainStep
from crawl_engine.store.tables.job.sequences import GroupCounts
from crawl_engine.store.tables.run.checkpoints import Checkpoint
from crawl_engine.supervise.checkpoints.step_graph import StepGraph, build_step_graph
from crawl_engine.supervise.checkpoints.tracker import diff_checkpoints, removed_entries

SEEDER, LOADER, PARSER, FILTER, APPENDER = default_chain()
MARK = ChainStep(name="mark", class_name="shop.Mark", kind="step")
SCORE = ChainStep(name="score", class_name="shop.Score", kind="step", options={"factor": 2})
FOLLOW = ChainStep(name="follow", class_name="LocatorCreator", previous="parser")
OWN = Task(name="own", data_def="item", chain=(SEEDER, LOADER, PARSER, MARK, SCORE, APPENDER, FOLLOW), code="1")
PLAIN = Task(name="plain", data_def="name")
ITEM = DataDef(
    name="item", fields=(Field(name="title", selector="h1"),), filters=(FilterRule(field="title", pattern="x"),)
)
DEFS = Definitions(
    locator_groups=(LocatorGroup(name="g", locators=(Locator(name="l", urls=("http://a/",)),)),),
    task_groups=(TaskGroup(name="g", tasks=(OWN, PLAIN)),),
    data_defs=(ITEM, DataDef(name="name", fields=(Field(name="name", selector="h1"),))),
)
OWN_KEYS = {f"g/own/{step}" for step in ("parser", "mark", "score", "appender", "follow")}
PLAIN_KEYS = {f"g/plain/{step}" for step in ("parser", "filter", "appender")}


def steps(*tasks: Task, **changes: Any) -> StepGraph:
    definitions = replace(DEFS, task_groups=(TaskGroup(name="g", tasks=tasks or (OWN, PLAIN)),), **changes)
    return build_step_graph(definitions, base_url=None, output=None)


def with_step(changed: ChainStep, **more: Any) -> Task:
    chain = tuple(changed if step.name == changed.name else step for step in OWN.chain)
    return replace(OWN, chain=chain, **more)


def finished(graph: StepGraph) -> dict[str, Checkpoint]:
    entries = diff_checkpoints({}, graph, {}, 1)
    return {c.key: replace(c, completed_at=5.0, status="valid") for c in entries}


def changes(graph: StepGraph, *, reextract: bool = True, done: int = 0) -> dict[str, Checkpoint]:
    """What defs v2 write over the complete entries of two tasks."""
    groups: Mapping[str, GroupCounts] = {"g": GroupCounts(done=done)}
    return {c.key: c for c in diff_checkpoints(finished(steps()), graph, groups, 2, reextract=reextract)}


def test_each_task_has_the_steps_of_its_chain_behind_the_loader_of_the_group() -> None:
    assert [(step.key, step.role, step.dependencies) for step in steps().steps] == [
        ("g/seeder", "seeder", ()),
        ("g/loader", "loader", ("seeder",)),
        ("g/own/parser", "parser", ("loader",)),
        ("g/own/mark", "step", ("parser",)),
        ("g/own/score", "step", ("mark",)),
        ("g/own/appender", "appender", ("score",)),
        ("g/own/follow", "step", ("parser",)),
        ("g/plain/parser", "parser", ("loader",)),
        ("g/plain/filter", "filter", ("parser",)),
        ("g/plain/appender", "appender", ("filter",)),
    ]
    assert [step.position for step in steps().steps] == [0, 1, 2, 3, 4, 5, 6, 2, 3, 4]
    assert {step.key: step.output for step in steps().steps if step.output} == {
        "g/own/appender": "item", "g/plain/appender": "name",
    }  # fmt: skip


def test_names_with_slashes_or_of_other_steps_stay_apart() -> None:
    odd = replace(MARK, name="a/b"), replace(SCORE, name="loader")
    graph = steps(replace(OWN, name="x/y", chain=(SEEDER, replace(LOADER, name="get"), PARSER, *odd, APPENDER)))
    assert [(step.key, step.dependency_keys) for step in graph.steps][1:] == [
        ("g/loader", ("g/seeder",)),
        ("g/x%2Fy/parser", ("g/loader",)),
        ("g/x%2Fy/a%2Fb", ("g/x%2Fy/parser",)),
        ("g/x%2Fy/loader", ("g/x%2Fy/a%2Fb",)),
        ("g/x%2Fy/appender", ("g/x%2Fy/loader",)),
    ]


CHANGES: dict[str, tuple[Task, set[str]]] = {
    "the code": (replace(OWN, code="2"), {"g/own/mark", "g/own/score"}),
    "an option": (with_step(replace(SCORE, options={"factor": 3})), {"g/own/score"}),
    "a class": (with_step(replace(MARK, class_name="shop.Other")), {"g/own/mark"}),
    "limit and workers": (with_step(replace(MARK, limit=9.0, workers=4)), set()),
    "an option of a side branch": (with_step(replace(FOLLOW, options={"linkGroup": "g"})), {"g/own/follow"}),
    "a parser of the user": (with_step(ChainStep(name="parser", class_name="shop.P", kind="parser")), {"g/own/parser"}),
}


@pytest.mark.parametrize("what", list(CHANGES))
def test_a_change_concerns_the_steps_of_its_task_alone(what: str) -> None:
    task, expected = CHANGES[what]
    before = {step.key: step.content_hash for step in steps().steps}
    after = {step.key: step.content_hash for step in steps(task, PLAIN).steps}
    assert set(before) == set(after)
    assert {key for key in before if before[key] != after[key]} == expected


def test_an_edited_plugin_invalidates_the_entries_of_its_task_from_the_first_step_of_plugin_code() -> None:
    written = changes(steps(replace(OWN, code="2"), PLAIN))
    assert {key: entry.reason for key, entry in written.items()} == {
        "g/own/mark": "its code or options changed with defs v2",
        "g/own/score": "its code or options changed with defs v2",
        "g/own/appender": "depends on g/own/score, which changed with defs v2",
    }
    assert {entry.status for entry in written.values()} == {"invalid"}


def test_a_filter_of_one_task_is_no_change_of_the_other() -> None:
    data_defs = (DEFS.data_defs[0], replace(DEFS.data_defs[1], filters=(FilterRule(field="name", pattern="y"),)))
    assert set(changes(steps(data_defs=data_defs))) == {"g/plain/filter", "g/plain/appender"}


def test_a_change_of_the_loader_concerns_all_tasks() -> None:
    definitions = replace(DEFS, task_groups=(TaskGroup(name="g", tasks=(OWN, PLAIN), max_depth=2),))
    written = changes(build_step_graph(definitions, base_url=None, output=None))
    assert set(written) == {"g/loader"} | OWN_KEYS | PLAIN_KEYS
    assert written["g/plain/appender"].reason == "depends on g/loader, which changed with defs v2"


def test_a_users_loader_is_part_of_what_the_group_fetches() -> None:
    loader = ChainStep(name="loader", class_name="get.Loader", kind="loader", options={"a": 1})
    task = replace(OWN, chain=(SEEDER, loader, PARSER, MARK, APPENDER))

    def loader_hash(task: Task, code: str) -> str:
        coded = replace(task, loader_code=code)
        [step] = [step for step in steps(coded, PLAIN).steps if step.key == "g/loader"]
        return step.content_hash

    code = "1"
    first = loader_hash(task, code)
    assert loader_hash(replace(task, code="2"), code) == first, "another step of the task changed"
    assert loader_hash(task, code + "X = 1\n") != first
    assert (
        loader_hash(replace(task, chain=(SEEDER, replace(loader, options={"a": 2}), PARSER, APPENDER)), code) != first
    )
    assert loader_hash(OWN, code) != first


def test_a_renamed_task_keeps_the_state_of_its_pages() -> None:
    graph = steps(replace(OWN, name="renamed"), PLAIN)
    written = changes(graph, reextract=False, done=7)
    assert set(written) == {key.replace("own", "renamed") for key in OWN_KEYS}
    assert {(entry.status, entry.completed, entry.kept) for entry in written.values()} == {("provisional", False, 0)}
    assert {entry.key for entry in removed_entries(finished(steps()), graph)} == OWN_KEYS


def test_a_new_task_counts_the_pages_that_were_done_without_it() -> None:
    graph = steps(OWN, PLAIN, Task(name="more", data_def="item"))
    written = changes(graph, reextract=False, done=7)
    assert {key: entry.kept for key, entry in written.items()} == {
        "g/more/parser": 7, "g/more/filter": 7, "g/more/appender": 0,
    }  # fmt: skip
    assert {entry.kept for entry in changes(graph, reextract=True, done=7).values()} == {0}


def test_what_follows_an_inserted_or_removed_step_is_invalid() -> None:
    between = replace(SCORE, name="between")
    chain = (SEEDER, LOADER, PARSER, MARK, between, SCORE, APPENDER, FOLLOW)
    graph = steps(replace(OWN, chain=chain), PLAIN)
    written = changes(graph)
    assert {key: entry.reason for key, entry in written.items() if entry.reason} == {
        "g/own/score": "the step before it changed with defs v2",
        "g/own/appender": "depends on g/own/score, which changed with defs v2",
    }
    assert written["g/own/follow"].completed, "it moved, and nothing else"
    graph = steps(replace(OWN, chain=(SEEDER, LOADER, PARSER, MARK, APPENDER, FOLLOW)), PLAIN)
    written = changes(graph)
    assert written["g/own/appender"].reason == "the step before it changed with defs v2"
    assert [entry.key for entry in removed_entries(finished(steps()), graph)] == ["g/own/score"]
