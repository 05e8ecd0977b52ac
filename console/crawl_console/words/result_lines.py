"""What a crawl gives, a line each: dataDefs with the least filled field, outputs with backlog."""

from collections.abc import Sequence
from typing import NamedTuple

from crawl_console.format import Span, format_count, format_rate, format_size
from crawl_engine.store.read.snapshot import OutputRow, Snapshot

OUTPUT_HEADINGS = f"{'ROWS':>7}{'ROWS/S':>8}{'BYTES/S':>9}{'BACKLOG':>9}"
DATA_HEADINGS = f"{'ROWS':>8}{'REJECTED':>9}  {'LEAST FILLED':<16}"


class DataDefLine(NamedTuple):
    name: str
    rows: int
    rejected: int
    least_filled: str
    warned: bool
    """Whether a warning about it holds now."""


def data_lines(snapshot: Snapshot) -> list[DataDefLine]:
    """The dataDefs that were applied; those with a warning first."""
    lines = [_line(snapshot, name) for name in snapshot.data_defs]
    return sorted(lines, key=lambda line: not line.warned)


def data_spans(item: DataDefLine) -> tuple[str, Sequence[Span]]:
    return item.name, (
        (f"{format_count(item.rows):>8}", "strong"),
        (f"{format_count(item.rejected):>9}", "warn" if item.rejected else "dim"),
        (f"  {'! ' if item.warned else ''}{item.least_filled}", "bad" if item.warned else "dim"),
    )


def output_spans(item: OutputRow) -> tuple[str, Sequence[Span]]:
    backlog = "rebuilt" if item.rebuilding else "10k+" if item.backlog > 10_000 else str(item.backlog)
    backlog_style = "warn" if item.backlog > 1000 or item.rebuilding else "dim"
    return item.name, (
        (f"{format_count(item.rows):>7}", "strong"),
        (f"{'ended' if item.pid is None else format_rate(item.rows_per_s):>8}", "accent" if item.pid else "dim"),
        (f"{'-' if item.pid is None else format_size(item.bytes_per_s):>9}", "dim"),
        (f"{backlog:>9}", "bad" if item.error else backlog_style),
    )


def _line(snapshot: Snapshot, name: str) -> DataDefLine:
    data_def = snapshot.data_defs[name]
    warned = any(warning.data_def == name and not warning.ended for warning in snapshot.warnings)
    least = min(data_def.filled.items(), key=lambda item: item[1], default=None)
    text = "-" if least is None or not data_def.records else f"{least[0]} {least[1] / data_def.records:.1%}"
    return DataDefLine(name, snapshot.rows.get(name, 0), snapshot.rejected.get(name, 0), text, warned)
