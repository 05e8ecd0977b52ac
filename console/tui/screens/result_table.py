"""What plugin steps reported: counts for the Defs screen, lines for the screen of a job."""

from collections.abc import Iterable, Mapping

from console.format import Span, format_count
from console.tui.widgets.line_table import LineTable
from console.words.job_lines import OUTCOME_ROLES
from console.words.table import Column, Row
from engine.model.step import OUTCOMES


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


def _row(group: str, task: str, step: str, counts: Mapping[str, int]) -> Row:
    cells: list[Span] = [(task, "text"), (step, "strong")]
    cells += [(format_count(counts[name]), OUTCOME_ROLES[name] if counts[name] else "dim") for name in OUTCOMES]
    worst = next((name for name in ("error", "warning", "ok", "not_applicable") if counts[name]), "ok")
    return Row(f"{task} {step}", tuple(cells), (task, step, *(counts[name] for name in OUTCOMES)),
               (group, worst))  # fmt: skip
