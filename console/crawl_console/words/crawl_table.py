"""The table of several data dirs: the latest run of each, one line."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crawl_console.crawl.source import PollResult
from crawl_console.format import (
    Span,
    format_count,
    format_date_time,
    format_day,
    format_eta,
    format_rate,
    format_time,
)
from crawl_console.words.run_line import run_state_span
from crawl_console.words.table import Column, Row, item_row, named_row
from crawl_engine.judge.rates import speed_of
from crawl_engine.model.run import Eta
from crawl_engine.store.tables.run.runs import Run

CRAWL_HEADINGS = ("DATA", "RUN", "STATE", "DONE", "READY", "FAILED", "PAGES/S", "ROWS", "END", "ALARMS")


class ShownCrawl(NamedTuple):
    """The latest run of a data dir."""

    name: str
    data: str
    result: PollResult
    run: Run
    alarms: int
    last_success: float | None

    @property
    def rate(self) -> float:
        return speed_of(self.result.snapshot, is_live=True).pages_per_s if self.result.is_live else 0.0

    @property
    def jobs(self) -> Mapping[str, int]:
        return self.result.snapshot.jobs


def _rate_span(shown: ShownCrawl) -> Span:
    return format_rate(shown.rate) if shown.result.is_live else "-", "text"


def _eta_span(shown: ShownCrawl) -> Span:
    return format_eta(shown.run.eta) if shown.result.is_live else "-", "text"


def _failed_span(shown: ShownCrawl) -> Span:
    failed = shown.jobs["failed"]
    return format_count(failed), "bad" if failed else "dim"


def _alarms_span(shown: ShownCrawl) -> Span:
    return (f"! {shown.alarms}", "warn") if shown.alarms else ("-", "dim")


def _success_span(shown: ShownCrawl) -> Span:
    """When a run last ended with exit code 0."""
    at = shown.last_success
    if at is None:
        return "never", "warn"
    day = format_day(at, time.time())
    return f"{day} {format_time(at)[:5]}" if day in ("today", "yesterday") else day, "text"


CRAWL_COLUMNS: Sequence[Column[ShownCrawl]] = (
    Column("CRAWL", 0, lambda shown: (shown.name, "strong"), lambda shown: shown.name, "its name", keeps_end=True),
    Column(
        "STATE", 15, lambda shown: run_state_span(shown.result), lambda shown: run_state_span(shown.result)[0],
        "of its latest run",
    ),
    Column("PG/S", 6, _rate_span, lambda shown: shown.rate, "pages in the last ten seconds", right=True),
    Column("ETA", 9, _eta_span, lambda shown: shown.run.eta.seconds or 0.0, "until the run ends", right=True),
    Column(
        "DONE", 8, lambda shown: (format_count(shown.jobs["done"]), "text"), lambda shown: shown.jobs["done"],
        "pages", right=True, min_pane_width=100,
    ),
    Column("FAILED", 6, _failed_span, lambda shown: shown.jobs["failed"], "pages", right=True),
    Column(
        "ROWS", 8, lambda shown: (format_count(shown.result.snapshot.row_count), "text"),
        lambda shown: shown.result.snapshot.row_count, "that it extracted", right=True, min_pane_width=100,
    ),
    Column("ALARMS", 6, _alarms_span, lambda shown: shown.alarms, "that are not acknowledged", right=True),
    Column(
        "LAST SUCCESS", 15, _success_span, lambda shown: shown.last_success or 0.0,
        "when a run last ended with exit code 0",
    ),
    Column(
        "DATA", 40, lambda shown: (shown.data, "dim"), lambda shown: shown.data, "its data directory",
        min_pane_width=140,
    ),
)  # fmt: skip


def crawl_cells(line: dict[str, Any]) -> list[str]:
    """The cells behind the name. `line`: the object of `status --all --json`."""
    if line["error"] or line["run"] is None:
        return ["-", "no run yet", *[""] * (len(CRAWL_HEADINGS) - 3)]
    if line["supervisor"]:
        end = f"ETA {format_eta(Eta(**line['eta']))}"
    else:
        end = format_date_time(line["ended"])[:16] if line["ended"] else "no supervisor"
    return [
        line["run"], line["verdict"]["word"], *(format_count(line[name]) for name in ("done", "ready", "failed")),
        format_rate(line["pages_per_s"]), format_count(line["rows"]), end, str(line["alarms"] or ""),
    ]  # fmt: skip


def crawl_row(
    name: str, folder: Path, result: PollResult | None, alarms: int, last_success: float | None, error: str
) -> Row:
    """The line of a crawl. One that cannot be read says why behind its name."""
    data = str(folder)
    run = result.snapshot.run if result is not None else None
    if error:
        return named_row(CRAWL_COLUMNS, data, {"CRAWL": (name, "strong")}, (f"✗ {error}", "bad"))
    if result is None or run is None:
        return named_row(CRAWL_COLUMNS, data, {"CRAWL": (name, "strong")}, ("no run yet", "dim"))
    return item_row(CRAWL_COLUMNS, data, ShownCrawl(name, data, result, run, alarms, last_success))
