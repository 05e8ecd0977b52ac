"""Checkpoints when the defs change, when work ends or appears, and when a run is interrupted."""

from msgspec.structs import replace

from crawl_engine.store.tables.job.sequences import GroupCounts
from crawl_engine.store.tables.run.checkpoints import Checkpoint
from crawl_engine.supervise.checkpoints.step_graph import StepGraph, StepRole, StepSpec
from crawl_engine.supervise.checkpoints.tracker import (
    RunProgress,
    completion_changes,
    diff_checkpoints,
    interruption_changes,
)

CHAIN = ("seeder", "loader", "t/parser", "t/filter", "t/appender")


def plan(**contents: str) -> StepGraph:
    """Groups a and b, each with one task t; pages of a link to b. `a_parser="2"` changes the content of that step."""

    def step(group: str, name: StepRole, *needs: str) -> StepSpec:
        return StepSpec(
            name=name, group=group, task="" if name in ("seeder", "loader") else "t", role=name,
            content_hash=contents.get(f"{group}_{name}", "1"), dependencies=needs,
        )  # fmt: skip

    return StepGraph(
        (
            step("a", "seeder"),
            step("a", "loader", "seeder"),
            step("a", "parser", "loader"),
            step("a", "filter", "parser"),
            step("a", "appender", "filter"),
            step("b", "loader", "a/loader"),
            step("b", "parser", "loader"),
            step("b", "filter", "parser"),
            step("b", "appender", "filter"),
        ),
        {"a": frozenset(), "b": frozenset({"a"})},
    )


def now(a: GroupCounts | None = None, b: GroupCounts | None = None, *, seeded: bool = True) -> RunProgress:
    return RunProgress(
        {"a": a or GroupCounts(), "b": b or GroupCounts()}, seeded, {"a/t/appender": True, "b/t/appender": True}
    )


def by_key(*parts: list[Checkpoint]) -> dict[str, Checkpoint]:
    return {c.key: c for part in parts for c in part}


def started() -> dict[str, Checkpoint]:
    """The entries of a run that has just started."""
    return by_key(diff_checkpoints({}, plan(), {}, 1))


def finished(seeder: bool = True) -> dict[str, Checkpoint]:
    """The entries of a finished run."""
    entries = started()
    entries["a/seeder"] = replace(entries["a/seeder"], completed_at=5.0, status="valid")
    entries |= by_key(completion_changes(entries, plan(), now(), 9.0))
    assert all(c.completed and c.status == "valid" for c in entries.values())
    return entries


def open_(count: int = 1, **more: int) -> GroupCounts:
    return GroupCounts(open=count, loading=count, **more)


def test_at_the_start_all_are_provisional_and_none_is_complete() -> None:
    entries = started()
    assert set(entries) == {step.key for step in plan().steps}
    assert {(c.status, c.completed, c.reason) for c in entries.values()} == {("provisional", False, None)}
    assert entries["b/loader"].dependencies == ("a/loader",)


def test_complete_entries_stay_with_the_same_defs() -> None:
    assert diff_checkpoints(finished(), plan(), {}, 1) == []


def invalid(**contents: str) -> dict[str, str | None]:
    written = by_key(diff_checkpoints(finished(), plan(**contents), {}, 2))
    assert all(not c.completed and c.status == "invalid" for c in written.values())
    return {key: c.reason for key, c in written.items()}


def test_only_a_changed_step_and_its_dependents_are_invalid() -> None:
    assert invalid(a_parser="2") == {
        "a/t/parser": "what it extracts changed with defs v2",
        "a/t/filter": "depends on a/t/parser, which changed with defs v2",
        "a/t/appender": "depends on a/t/parser, which changed with defs v2",
    }
    assert set(invalid(a_appender="2")) == {"a/t/appender"}
    assert set(invalid(b_loader="2")) == {"b/loader", "b/t/parser", "b/t/filter", "b/t/appender"}


def test_dependents_in_another_group_are_invalid_too() -> None:
    reasons = invalid(a_seeder="2")
    assert set(reasons) == {step.key for step in plan().steps}
    assert reasons["b/t/appender"] == "depends on a/seeder, which changed with defs v2"


def test_groups_that_depend_on_each_other_are_handled() -> None:
    graph = plan()
    circle = replace(graph, steps=tuple(replace(s, dependencies=("seeder", "b/loader")) if s.key == "a/loader" else s
                                       for s in graph.steps))  # fmt: skip
    entries = by_key(diff_checkpoints({}, circle, {}, 1))
    other = replace(circle, steps=tuple(replace(s, content_hash="2") if s.key == "b/loader" else s
                                        for s in circle.steps))  # fmt: skip
    written = by_key(diff_checkpoints(entries, other, {}, 2))
    assert {key for key, c in written.items() if c.status == "invalid"} == set(entries) - {"a/seeder"}


def test_an_invalid_entry_survives_a_restart_until_it_is_complete() -> None:
    entries = finished() | by_key(diff_checkpoints(finished(), plan(a_filter="2"), {}, 2))
    entries |= by_key(interruption_changes(entries, plan(a_filter="2"), now(open_(3)), "cancelled by signal"))
    assert entries["a/t/filter"].reason == "its filters changed with defs v2; cancelled by signal: 3 jobs left"
    entries |= by_key(diff_checkpoints(entries, plan(a_filter="2"), {}, 2))
    assert entries["a/t/filter"].status == "invalid"
    assert entries["a/t/filter"].reason == "its filters changed with defs v2"
    entries |= by_key(completion_changes(entries, plan(a_filter="2"), now(), 9.0))
    assert (entries["a/t/filter"].status, entries["a/t/filter"].reason) == ("valid", None)


def test_a_step_with_kept_pages_is_not_valid_and_counts_them() -> None:
    groups = {"a": GroupCounts(done=12)}
    entries = finished() | by_key(diff_checkpoints(finished(), plan(a_parser="2"), groups, 2))
    entries |= by_key(completion_changes(entries, plan(a_parser="2"), now(GroupCounts(done=14)), 9.0))
    parser = entries["a/t/parser"]
    assert parser.completed
    assert parser.status == "provisional"
    assert parser.reason == "12 pages done before a change of the defs keep their results"
    assert entries["a/t/filter"].status == entries["a/t/appender"].status == "valid"
    again = entries | by_key(diff_checkpoints(entries, plan(a_parser="2"), groups, 2))
    assert again["a/t/parser"] == parser, "the note stays"


def test_a_step_that_is_no_longer_in_the_defs_is_invalid() -> None:
    graph = plan()
    less = replace(graph, steps=graph.steps[:5], upstream={"a": frozenset()})
    written = by_key(diff_checkpoints(finished(), less, {}, 2))
    assert {c.reason for c in written.values()} == {"not in defs v2"}
    assert set(written) == {"b/loader", "b/t/parser", "b/t/filter", "b/t/appender"}
    assert diff_checkpoints(finished() | written, less, {}, 2) == []


def completed(entries: dict[str, Checkpoint], progress: RunProgress) -> set[str]:
    return {c.key for c in completion_changes(entries, plan(), progress, 9.0) if c.completed}


def seeded() -> dict[str, Checkpoint]:
    entries = started()
    entries["a/seeder"] = replace(entries["a/seeder"], completed_at=5.0, status="valid")
    return entries


def test_a_group_is_complete_if_no_job_is_open_and_none_can_appear() -> None:
    entries = seeded()
    assert completed(entries, now(open_(), open_())) == set()
    assert completed(entries, now(GroupCounts(), open_())) == {"a/loader", "a/t/parser", "a/t/filter", "a/t/appender"}
    assert completed(entries, now(open_(), GroupCounts())) == set(), "pages of a may link to more of b"
    assert completed(entries, now(seeded=False)) == set()
    assert completed(started(), now()) == set(), "its seeder is not complete"
    assert completed(entries, now()) == set(entries) - {"a/seeder"}


def test_the_appender_is_complete_when_the_files_hold_every_row() -> None:
    behind = RunProgress({}, True, {"a/t/appender": False, "b/t/appender": True})
    assert "a/t/appender" not in completed(seeded(), behind)
    assert "b/t/appender" in completed(seeded(), behind)


def test_failed_jobs_are_counted_in_the_reason() -> None:
    done = by_key(completion_changes(seeded(), plan(), now(GroupCounts(failed=3), GroupCounts(failed=1)), 9.0))
    assert done["a/t/parser"].reason == "3 jobs failed"
    assert done["b/loader"].reason == "1 job failed"
    assert done["a/t/appender"].reason is None
    assert done["a/t/parser"].completed_at == 9.0


def test_new_work_reopens_complete_steps() -> None:
    entries = finished()
    again = completion_changes(entries, plan(), now(b=open_(2)), 10.0)
    assert {(c.key, c.status, c.reason) for c in again} == {
        (f"b/{step}", "provisional", "there is work again") for step in CHAIN[1:]
    }
    assert {c.key for c in completion_changes(entries, plan(), now(a=open_()), 10.0)} == set(entries) - {"a/seeder"}
    assert completion_changes(entries, plan(), now(seeded=False), 10.0) == [], "a new version alone reopens nothing"


def test_work_without_a_fetch_keeps_the_loader_complete() -> None:
    again = completion_changes(finished(), plan(), now(a=GroupCounts(open=5, loading=0)), 10.0)
    assert {c.key for c in again} == {"a/t/parser", "a/t/filter", "a/t/appender"}


def test_an_interrupted_run_records_the_reason_and_the_jobs_left() -> None:
    entries = seeded()
    left = by_key(interruption_changes(entries, plan(), now(open_(12), GroupCounts()), "cancelled by signal"))
    assert "a/seeder" not in left, "complete entries stay"
    assert left["a/loader"].reason == "cancelled by signal: 12 jobs left"
    assert left["b/loader"].reason == "cancelled by signal: 0 jobs left, but open pages of other groups may link here"
    assert not any(c.completed for c in left.values())
    unseeded = by_key(interruption_changes(started(), plan(), now(open_(1), GroupCounts(), seeded=False), "hard kill"))
    assert unseeded["a/seeder"].reason == "hard kill: not all locators are jobs"
    assert unseeded["a/t/appender"].reason == "hard kill: 1 job left"
