"""What becomes of checkpoints: when the defs change, when work ends or comes again, when a run is cut off."""

from dataclasses import replace

from engine.store.tables.checkpoints import Checkpoint
from engine.store.tables.sequences import GroupCounts
from engine.supervise.checkpoints.step_graph import StepGraph, StepSpec
from engine.supervise.checkpoints.tracker import RunProgress, completion_changes, diff_checkpoints, interruption_changes

CHAIN = ("seeder", "loader", "parser", "filter", "appender")


def plan(**contents: str) -> StepGraph:
    """Groups a and b, whose pages are found on those of a. `a_parser="2"` gives that step another content."""

    def step(group: str, name: str, *needs: str) -> StepSpec:
        return StepSpec(name=name, group=group, content_hash=contents.get(f"{group}_{name}", "1"), dependencies=needs)

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
        {"a": ("x",), "b": ("y",)},
    )


def now(a: GroupCounts | None = None, b: GroupCounts | None = None, *, seeded: bool = True) -> RunProgress:
    return RunProgress({"a": a or GroupCounts(), "b": b or GroupCounts()}, seeded, {"a": True, "b": True})


def by_key(*parts: list[Checkpoint]) -> dict[str, Checkpoint]:
    return {c.key: c for part in parts for c in part}


def begun() -> dict[str, Checkpoint]:
    """The entries of a run that has just begun."""
    return by_key(diff_checkpoints({}, plan(), {}, 1))


def finished(seeder: bool = True) -> dict[str, Checkpoint]:
    """Those of one that is over."""
    known = begun()
    known["a/seeder"] = replace(known["a/seeder"], completed_at=5.0, status="valid")
    known |= by_key(completion_changes(known, plan(), now(), 9.0))
    assert all(c.completed and c.status == "valid" for c in known.values())
    return known


def open_(count: int = 1, **more: int) -> GroupCounts:
    return GroupCounts(open=count, loading=count, **more)


def test_at_the_start_all_are_provisional_and_none_is_complete() -> None:
    known = begun()
    assert set(known) == {step.key for step in plan().steps}
    assert {(c.status, c.completed, c.reason) for c in known.values()} == {("provisional", False, None)}
    assert known["b/loader"].dependencies == ("a/loader",)


def test_with_the_same_defs_what_is_complete_is_left_alone() -> None:
    assert diff_checkpoints(finished(), plan(), {}, 1) == []


def invalid(**contents: str) -> dict[str, str | None]:
    written = by_key(diff_checkpoints(finished(), plan(**contents), {}, 2))
    assert all(not c.completed and c.status == "invalid" for c in written.values())
    return {key: c.reason for key, c in written.items()}


def test_a_changed_step_and_all_that_rest_on_it_are_invalid_with_the_reason_and_no_other() -> None:
    assert invalid(a_parser="2") == {
        "a/parser": "what it extracts changed with defs v2",
        "a/filter": "depends on a/parser, which changed with defs v2",
        "a/appender": "depends on a/parser, which changed with defs v2",
    }
    assert set(invalid(a_appender="2")) == {"a/appender"}
    assert set(invalid(b_loader="2")) == {"b/loader", "b/parser", "b/filter", "b/appender"}


def test_what_rests_on_another_group_is_invalid_with_it() -> None:
    told = invalid(a_seeder="2")
    assert set(told) == {step.key for step in plan().steps}
    assert told["b/appender"] == "depends on a/seeder, which changed with defs v2"


def test_groups_that_rest_on_each_other_end() -> None:
    made = plan()
    circle = replace(made, steps=tuple(replace(s, dependencies=("seeder", "b/loader")) if s.key == "a/loader" else s
                                       for s in made.steps))  # fmt: skip
    known = by_key(diff_checkpoints({}, circle, {}, 1))
    other = replace(circle, steps=tuple(replace(s, content_hash="2") if s.key == "b/loader" else s
                                        for s in circle.steps))  # fmt: skip
    written = by_key(diff_checkpoints(known, other, {}, 2))
    assert {key for key, c in written.items() if c.status == "invalid"} == set(known) - {"a/seeder"}


def test_an_invalid_entry_stays_so_over_a_restart_until_it_is_complete() -> None:
    known = finished() | by_key(diff_checkpoints(finished(), plan(a_filter="2"), {}, 2))
    known |= by_key(interruption_changes(known, plan(a_filter="2"), now(open_(3)), "cancelled by signal"))
    assert known["a/filter"].reason == "its filters changed with defs v2; cancelled by signal: 3 jobs left"
    known |= by_key(diff_checkpoints(known, plan(a_filter="2"), {}, 2))
    assert known["a/filter"].status == "invalid"
    assert known["a/filter"].reason == "its filters changed with defs v2"
    known |= by_key(completion_changes(known, plan(a_filter="2"), now(), 9.0))
    assert (known["a/filter"].status, known["a/filter"].reason) == ("valid", None)


def test_pages_that_keep_what_they_gave_are_told_and_the_step_is_not_valid() -> None:
    groups = {"a": GroupCounts(done=12)}
    known = finished() | by_key(diff_checkpoints(finished(), plan(a_parser="2"), groups, 2))
    known |= by_key(completion_changes(known, plan(a_parser="2"), now(GroupCounts(done=14)), 9.0))
    parser = known["a/parser"]
    assert parser.completed
    assert parser.status == "provisional"
    assert parser.reason == "12 pages done before a change of the defs keep their results"
    assert known["a/filter"].status == known["a/appender"].status == "valid"
    again = known | by_key(diff_checkpoints(known, plan(a_parser="2"), groups, 2))
    assert again["a/parser"] == parser, "and it stays told"


def test_a_step_that_is_no_longer_in_the_defs_is_invalid() -> None:
    made = plan()
    less = replace(made, steps=made.steps[:5], upstream={"a": frozenset()}, data_defs={"a": ("x",)})
    written = by_key(diff_checkpoints(finished(), less, {}, 2))
    assert {c.reason for c in written.values()} == {"not in defs v2"}
    assert set(written) == {"b/loader", "b/parser", "b/filter", "b/appender"}
    assert diff_checkpoints(finished() | written, less, {}, 2) == []


def completed(known: dict[str, Checkpoint], standings: RunProgress) -> set[str]:
    return {c.key for c in completion_changes(known, plan(), standings, 9.0) if c.completed}


def seeded() -> dict[str, Checkpoint]:
    known = begun()
    known["a/seeder"] = replace(known["a/seeder"], completed_at=5.0, status="valid")
    return known


def test_a_group_is_complete_with_no_open_job_and_none_that_can_come() -> None:
    known = seeded()
    assert completed(known, now(open_(), open_())) == set()
    assert completed(known, now(GroupCounts(), open_())) == {"a/loader", "a/parser", "a/filter", "a/appender"}
    assert completed(known, now(open_(), GroupCounts())) == set(), "pages of a may lead to more of b"
    assert completed(known, now(seeded=False)) == set()
    assert completed(begun(), now()) == set(), "its seeder is not complete"
    assert completed(known, now()) == set(known) - {"a/seeder"}


def test_the_appender_is_complete_when_the_files_hold_every_row() -> None:
    behind = RunProgress({}, True, {"a": False, "b": True})
    assert "a/appender" not in completed(seeded(), behind)
    assert "b/appender" in completed(seeded(), behind)


def test_failed_jobs_are_told() -> None:
    done = by_key(completion_changes(seeded(), plan(), now(GroupCounts(failed=3), GroupCounts(failed=1)), 9.0))
    assert done["a/parser"].reason == "3 jobs failed"
    assert done["b/loader"].reason == "1 job failed"
    assert done["a/appender"].reason is None
    assert done["a/parser"].completed_at == 9.0


def test_work_that_comes_again_opens_what_was_complete() -> None:
    known = finished()
    again = completion_changes(known, plan(), now(b=open_(2)), 10.0)
    assert {(c.key, c.status, c.reason) for c in again} == {
        (f"b/{step}", "provisional", "there is work again") for step in CHAIN[1:]
    }
    assert {c.key for c in completion_changes(known, plan(), now(a=open_()), 10.0)} == set(known) - {"a/seeder"}
    assert completion_changes(known, plan(), now(seeded=False), 10.0) == [], "a new version alone opens nothing"


def test_work_that_fetches_nothing_leaves_the_loader_complete() -> None:
    again = completion_changes(finished(), plan(), now(a=GroupCounts(open=5, loading=0)), 10.0)
    assert {c.key for c in again} == {"a/parser", "a/filter", "a/appender"}


def test_a_run_that_is_cut_off_tells_why_and_how_much_is_left() -> None:
    known = seeded()
    left = by_key(interruption_changes(known, plan(), now(open_(12), GroupCounts()), "cancelled by signal"))
    assert "a/seeder" not in left, "what is complete stays so"
    assert left["a/loader"].reason == "cancelled by signal: 12 jobs left"
    assert left["b/loader"].reason == "cancelled by signal: 0 jobs left, but open pages of other groups may link here"
    assert not any(c.completed for c in left.values())
    unseeded = by_key(interruption_changes(begun(), plan(), now(open_(1), GroupCounts(), seeded=False), "hard kill"))
    assert unseeded["a/seeder"].reason == "hard kill: not all locators are jobs"
    assert unseeded["a/appender"].reason == "hard kill: 1 job left"
