"""Crawls a site of a million small pages, then asks its data dir: is speed even, is memory flat, are commands fast?"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from crawl_engine.store.db.sqlite import sqlite3
from tests.bench.crawlers import PROJECT, console, run_command, write_defs
from tests.bench.measure import Measured, measure
from tests.bench.pages import path_of
from tests.bench.poller import DONE, Poller
from tests.bench.report import table
from tests.bench.site import small_pages

_TENTHS = 10
_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Large:
    """The result of one crawl."""

    wanted: int
    pages: int
    jobs: int
    usage: Measured
    tenths: list[tuple[float, float]]
    """Pages/s, and the median memory of the largest node in bytes."""
    job_bytes: float
    """Bytes of crawl.db for each job."""
    commands: dict[str, tuple[float, float]]
    """Seconds of wall time and of CPU, start included."""

    def budgets(self) -> Iterator[tuple[str, float, str, float]]:
        """Name, measured, sign and limit of each budget."""
        (first, first_memory), (last, last_memory) = self.tenths[0], self.tenths[-1]
        yield "pages/s, last tenth ÷ first", last / first, "≥", 0.9
        yield "memory of a node, last tenth ÷ first", last_memory / first_memory, "≤", 1.2
        yield "bytes of crawl.db per job", self.job_bytes, "≤", 450
        for command, (seconds, _) in self.commands.items():
            yield f"{command}, s", seconds, "≤", 0.2 if command == "status" else 0.5

    def as_dict(self) -> dict[str, Any]:
        """As one JSON object."""
        return {
            "bench": "size", "pages": self.pages, "jobs": self.jobs, "seconds": self.usage.wall,
            "cpu_seconds": self.usage.cpu, "peak_bytes": self.usage.peak, "tenths": self.tenths,
            "job_bytes": self.job_bytes, "commands": self.commands,
        }  # fmt: skip

    def report(self) -> str:
        """As tables."""
        cut = "" if self.pages == self.wanted else f" of {self.wanted:,}: the time was over"
        rows = [[f"{n + 1}", rate, memory / 1e6] for n, (rate, memory) in enumerate(self.tenths)]
        return (
            f"{self.pages:,} pages{cut}; {self.jobs:,} jobs; {self.usage.wall:.0f} s,"
            f" CPU {self.usage.cpu / self.pages * 1000:.2f} ms/page by {self.usage.cpu_by},"
            f" peak {self.usage.peak / 1e6:.0f} MB (sum of PSS)\n"
            + table(["tenth", "pages/s", "node MB"], rows)
            + "\n"
            + table(["command", "s", "CPU s"], [[command, *times] for command, times in self.commands.items()])
        )


def crawl(pages: int, minutes: float, keep: Path | None = None) -> Large:
    """Crawl for at most so many minutes. The data dir stays in `keep`. Raises RuntimeError when the crawl fails."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, small_pages(pages) as site:
        folder = keep or Path(name)
        data = folder / "data"
        command = [*run_command(write_defs(site.starts, folder), data), "--max-time", f"{minutes * 60:.0f}"]
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        with Poller(data / "crawl.db", DONE, 0.25) as poller:
            usage = measure(command, cwd=PROJECT, env=environment, timeout=minutes * 60 + 300)
        if usage.exit_code:
            raise RuntimeError(f"exit {usage.exit_code}\n{usage.stderr[-3000:]}")
        with closing(sqlite3.connect(data / "crawl.db")) as db:
            [(done,)], [(jobs,)] = db.execute(DONE), db.execute("SELECT count(*) FROM jobs")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        commands = {
            "status": ["status"],
            "jobs --match, URL part": ["jobs", "--limit", "50", "--match", "/c1"],
            "jobs --match, a rare URL part": ["jobs", "--limit", "50", "--match", path_of(pages - 1)[3:-6]],
        }
        return Large(
            wanted=pages, pages=int(done), jobs=jobs, usage=usage,
            tenths=[_tenth(poller, usage, n) for n in range(_TENTHS)],
            job_bytes=(data / "crawl.db").stat().st_size / jobs,
            commands={name: _times([*words, "--data", str(data)]) for name, words in commands.items()},
        )  # fmt: skip


def _tenth(poller: Poller, usage: Measured, number: int) -> tuple[float, float]:
    start, end = number / _TENTHS, (number + 1) / _TENTHS
    last = poller.samples[-1][1]
    began, ended = poller.time_of(start * last), poller.time_of(end * last)
    sizes = [size for at, size in usage.parts["node"].memory if began <= at <= ended]
    return poller.rate(start, end), median(sizes or [0])


def _times(words: list[str]) -> tuple[float, float]:
    """Wall time and CPU of a command; the medians."""
    done = [measure([*console(), *words]) for _ in range(_REPEATS)]
    if any(one.exit_code for one in done):
        raise RuntimeError(f"{words[0]}: {done[-1].stderr}")
    return median(one.wall for one in done), median(one.cpu for one in done)
