"""The table of several data dirs: the latest run of each, one line."""

import time
from pathlib import Path
from typing import Any

from crawl_console.crawl.source import PollResult
from crawl_console.format import (
    format_count,
    format_date_time,
    format_day,
    format_eta,
    format_rate,
    format_time,
)
from crawl_console.words.run_line import run_state_span
from crawl_console.words.table import Column, Row
from crawl_engine.judge.rates import speed_of
from crawl_engine.model.run import Eta

CRAWL_HEADINGS = ("DATA", "RUN", "STATE", "DONE", "READY", "FAILED", "PAGES/S", "ROWS", "END", "ALARMS")
CRAWL_COLUMNS = (
    Column("CRAWL", 0, keeps_end=True), Column("STATE", 15), Column("PG/S", 6, right=True),
    Column("ETA", 9, right=True), Column("DONE", 8, right=True, min_pane_width=100),
    Column("FAILED", 6, right=True), Column("ROWS", 8, right=True, min_pane_width=100),
    Column("ALARMS", 6, right=True), Column("LAST SUCCESS", 15), Column("DATA", 40, min_pane_width=140),
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
        return Row(data, ((name, "strong"), (f"✗ {error}", "bad")))
    if result is None or run is None:
        return Row(data, ((name, "strong"), ("no run yet", "dim")))
    rate = speed_of(result.snapshot, is_live=True).pages_per_s if result.is_live else 0.0
    jobs = result.snapshot.jobs
    eta = format_eta(run.eta) if result.is_live else "-"
    return Row(
        data,
        (
            (name, "strong"), run_state_span(result), (format_rate(rate) if result.is_live else "-", "text"),
            (eta, "text"), (format_count(jobs["done"]), "text"),
            (format_count(jobs["failed"]), "bad" if jobs["failed"] else "dim"),
            (format_count(result.snapshot.row_count), "text"),
            (f"! {alarms}" if alarms else "-", "warn" if alarms else "dim"),
            _success(last_success), (data, "dim"),
        ),
        (
            name, run_state_span(result)[0], rate, run.eta.seconds or 0.0, jobs["done"], jobs["failed"],
            result.snapshot.row_count, alarms, last_success or 0.0, data,
        ),
    )  # fmt: skip


def _success(at: float | None) -> tuple[str, str]:
    """When a run last ended with exit code 0."""
    if at is None:
        return "never", "warn"
    day = format_day(at, time.time())
    return f"{day} {format_time(at)[:5]}" if day in ("today", "yesterday") else day, "text"
