"""What plugin steps reported: counts for the Defs screen, lines for the screen of a job."""

from collections.abc import Iterable, Iterator, Mapping

from console.format import format_count
from console.tui.widgets.columns import Column
from console.tui.widgets.line_canvas import Span
from console.tui.widgets.line_table import LineTable, Row
from engine.model.step import OUTCOMES
from engine.store.read.browse import JobDetail

_ROLES = {"ok": "text", "warning": "warn", "error": "bad", "not_applicable": "text"}


class ResultTable(LineTable):
    """The counts of a run by task, step and outcome. The subject of a row: its group, and its worst outcome."""

    COLUMNS = (
        Column("TASK", 0), Column("STEP", 16), Column("OK", 7, right=True), Column("WARNINGS", 8, right=True),
        Column("ERRORS", 7, right=True), Column("NOT APPL.", 9, right=True),
    )  # fmt: skip
    EMPTY = "no results"


def result_rows(results: Mapping[str, Mapping[str, Mapping[str, int]]], groups: Iterable[str]) -> list[Row]:
    """The rows of a snapshot's results. `groups`: the names of the groups; one may hold a slash."""
    rows = []
    for task, steps in results.items():
        group = next((group for group in groups if task.startswith(f"{group}/")), task.partition("/")[0])
        rows += [_row(group, task, step, counts) for step, counts in steps.items()]
    return rows


def result_lines(detail: JobDetail) -> Iterator[Span]:
    """The results of a job's page, oldest first; then those that are counted only."""
    if not detail.results and not detail.unlisted_results:
        yield "no results", "dim"
    for result in detail.results:
        code = f" {result.code}" if result.code else ""
        head = f"{result.task}/{result.step}  {result.outcome}{code}  {result.ms:.2f} ms"
        yield f"{head}  {result.text}".rstrip(), _ROLES[result.outcome]
    for count in detail.unlisted_results:
        yield f"{count.task}/{count.step}  {count.outcome}  {count.results:,} counted", _ROLES[count.outcome]


def _row(group: str, task: str, step: str, counts: Mapping[str, int]) -> Row:
    cells: list[Span] = [(task, "text"), (step, "strong")]
    cells += [(format_count(counts[name]), _ROLES[name] if counts[name] else "dim") for name in OUTCOMES]
    worst = next((name for name in ("error", "warning", "ok", "not_applicable") if counts[name]), "ok")
    return Row(f"{task} {step}", tuple(cells), (task, step, *(counts[name] for name in OUTCOMES)),
               (group, worst))  # fmt: skip
