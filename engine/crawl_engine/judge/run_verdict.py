"""How is this run, or how did it end: one word, one level and what is to blame, wherever it is shown."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from crawl_engine.model.run import RunState, Stage
from crawl_engine.store.read.data_warnings import describe_shortfall
from crawl_engine.store.read.history import PastRun
from crawl_engine.store.read.snapshot import Snapshot
from crawl_engine.store.tables.run.runs import Run

Level = Literal["good", "warn", "bad", "dim"]
FELL_SHORT = 1
"""The exit code of a run that came to its end and gave less than it should."""
_ORDERED = (130, 137, 143)
"""Exit codes of a run that somebody ended."""
_WITHOUT_CODE: dict[RunState, Level] = {RunState.DONE: "good", RunState.CANCELLED: "warn"}
"""A run that another one superseded has no exit code."""
_STAGE_WORDS = {
    Stage.STOPPING_NODES_GRACEFUL: "STOPPING nodes", Stage.STOPPING_APPENDER_GRACEFUL: "STOPPING appender",
    Stage.STOPPING_NODES_FORCEFUL: "FORCING nodes", Stage.STOPPING_APPENDER_FORCEFUL: "FORCING appender",
}  # fmt: skip


class RunVerdict(Struct, frozen=True):
    """Field names and their order are the keys of `verdict` in JSON."""

    word: str
    """`RUNNING`, `DONE`; `ENDED, exit 1` of a run that gave less than it should."""
    level: Level
    text: str
    """The word with its exit code, and what is to blame."""


NO_RUN = RunVerdict("no run yet", "dim", "no run yet")


def verdict_of(view: Snapshot, *, is_live: bool) -> RunVerdict:
    """Of the run of a snapshot. `is_live`: whether its supervisor is at work."""
    shortfall: Sequence[str] = ()
    if view.run is not None and not view.run.state.is_open:
        files = view.files.get("failed", 0)
        shortfall = describe_shortfall(view.jobs["failed"], files, view.warnings, view.data_defs)
    return judge_run(view.run, shortfall, is_live=is_live)


def judge_run(run: Run | PastRun | None, shortfall: Sequence[str] = (), *, is_live: bool) -> RunVerdict:
    """Of a run. `shortfall`: what it lacks, if it has ended."""
    if run is None:
        return NO_RUN
    state = RunState(run.state)
    if state.is_open:
        word, level = _judge_open(state, Stage(run.stage), run.paused, is_live=is_live)
        return RunVerdict(word, level, word)
    code = run.exit_code
    level = judge_exit(code) if code is not None else _WITHOUT_CODE.get(state, "bad")
    fell_short = code == FELL_SHORT
    word = f"ENDED, exit {code}" if fell_short else state.value
    head = f"{word}, exit {code}" if code and not fell_short else word
    causes = [run.reason] if run.reason else []
    causes += shortfall or (["nothing was extracted"] if fell_short and not causes else [])
    return RunVerdict(word, level, f"{head}: {', '.join(causes)}" if causes else head)


def _judge_open(state: RunState, stage: Stage, paused: str | None, *, is_live: bool) -> tuple[str, Level]:
    if not is_live:
        return ("RESUMABLE", "warn") if stage is Stage.SHUTDOWN_COMPLETE else ("SUPERVISOR LOST", "bad")
    if stage is not Stage.RUNNING:
        return _STAGE_WORDS.get(stage, stage.value), "good" if stage is Stage.CRAWL_COMPLETE else "warn"
    if paused:
        return "PAUSED", "warn"
    return (state.value, "warn") if state in (RunState.SEEDING, RunState.DRAINING) else ("RUNNING", "good")


def judge_exit(code: int) -> Level:
    """By the exit code alone."""
    return "good" if not code else "warn" if code in _ORDERED else "bad"
