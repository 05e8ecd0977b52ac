"""Formats results as tables and JSON lines, with the machine they were measured on."""

import json
import os
import platform
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A text table: numbers right-aligned, with three significant digits."""
    texts = [[cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *texts, strict=True)]
    right = [all(isinstance(row[i], int | float) or row[i] is None for row in rows) for i in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(heads), "  ".join("─" * w for w in widths), *map(line, texts)])


def cell(value: Any) -> str:
    """One value: three significant digits, thousands separated."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        size = abs(value)
        return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"
    return str(value)


def put(file: Path | None, result: Mapping[str, Any]) -> None:
    """Append a result to a file of JSON lines, if one is given."""
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps(result, default=str) + "\n")


def machine() -> dict[str, Any]:
    """Machine and versions that the results depend on."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": _sqlite(),
        "versions": {name: _version(name) for name in ("crawl-console", "scrapy", "httptools", "selectolax", "huey")},
    }


def machine_line() -> str:
    """The same in two lines of text."""
    info = machine()
    versions = ", ".join(f"{name} {version}" for name, version in info["versions"].items() if version)
    return (
        f"{info['date']}  {info['cpu']}, {info['cores']} cores, {info['system']}\n"
        f"Python {info['python']}, SQLite {info['sqlite']}, {versions}"
    )


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _sqlite() -> str:
    from crawl_engine.store.db.sqlite import sqlite3 as crawl_sqlite

    return f"{crawl_sqlite.sqlite_version} (crawl.db), {sqlite3.sqlite_version} (queue.db)"


def _version(name: str) -> str | None:
    if name == "crawl-console" and "crawl_engine" in sys.modules:
        from crawl_engine import __version__

        return __version__
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
