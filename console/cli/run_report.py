"""Formats the metrics of a run as lines: one per group, the totals, and what users' steps reported."""

from console.format import format_size, plural
from engine.store.read.snapshot import Snapshot


def report_lines(view: Snapshot) -> list[str]:
    """Lines that are not yet cleaned; none before the first page."""
    metrics = view.metrics
    if not metrics["groups"]:
        return []
    width = max(5, *(len(g["group"]) for g in metrics["groups"]))
    lines = [
        f"  {'group':<{width}}{'done':>9}{'failed':>8}{'skipped':>9}{'incomplete':>12}{'left':>9}{'fetches':>9}"
        f"{'ms each':>9}{'bytes':>10}{'retries':>9}"
    ]
    lines += [
        f"  {g['group']:<{width}}{g['done']:>9}{g['failed']:>8}{g['skipped']:>9}{g['incomplete']:>12}{g['left']:>9}"
        f"{g['fetches']:>9}{_format_or_dash(g['fetch_ms'], '.1f'):>9}{format_size(g['bytes']):>10}{g['retries']:>9}"
        for g in metrics["groups"]
    ]
    totals = [
        f"{_format_or_dash(metrics['success'], '.1f')} % success" if any(view.rows.values()) else "no rows",
        f"{metrics['seconds']:.1f} s",
        f"{metrics['pages_per_min']:.0f} pages/min",
        f"{_format_or_dash(metrics['fetch_ms'], '.1f')} ms per fetch",
        f"{format_size(metrics['bytes'])}B fetched",
        plural(metrics["retries"], "retry"),
        plural(metrics["takeovers"], "takeover"),
    ]
    lines.append("  " + ", ".join(totals))
    shares = [f"{s['node']} {s['share']:.0f} %" for s in metrics["shares"] if s["share"]]
    if shares:
        lines.append("  share by node: " + ", ".join(shares))
    return lines + _file_lines(view) + _result_lines(view)


def _file_lines(view: Snapshot) -> list[str]:
    """What became of the files that pages name; none if they name none."""
    if not view.files:
        return []
    counts = ", ".join(f"{count:,} {name}" for name, count in view.files.items())
    waiting = sum(view.waiting_rows.values())
    return [f"  files: {counts}" + (f"; rows that wait for files: {waiting:,}" if waiting else "")]


def _result_lines(view: Snapshot) -> list[str]:
    """A line a step; none without users' steps."""
    steps = [(task, step, counts) for task, by_step in view.results.items() for step, counts in by_step.items()]
    if not steps:
        return []
    task_width = max(4, *(len(task) for task, _, _ in steps))
    step_width = max(4, *(len(step) for _, step, _ in steps))
    lines = [
        f"  {'task':<{task_width}}  {'step':<{step_width}}{'ok':>9}{'warning':>9}{'error':>8}{'not applicable':>16}"
    ]
    return lines + [
        f"  {task:<{task_width}}  {step:<{step_width}}{counts['ok']:>9}{counts['warning']:>9}{counts['error']:>8}"
        f"{counts['not_applicable']:>16}"
        for task, step, counts in steps
    ]


def _format_or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
