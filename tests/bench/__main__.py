"""Runs all measurements and prints them as ratios: `python -m tests.bench [--only PART,…]`."""

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench import micro, stages
from tests.bench.contest import (
    CEILING,
    NODES,
    OURS,
    SCRAPY,
    SCRAPY_LEAN,
    SCRAPY_SEEN,
    Contestant,
    Crawl,
    crawl,
    crawls_table,
)
from tests.bench.measure import parts_table
from tests.bench.report import cell, machine, machine_line, put, table
from tests.bench.site import Site, chosen_site, slow_site

PARTS = ("crawl", "scrapy", "slow", "appender", "micro", "stages")
_SLOTS = 32
_QUIET = 0.1


@dataclass(slots=True)
class Bench:
    """Results and budgets so far."""

    json: Path | None
    budgets: list[list[Any]] = field(default_factory=list)

    def record(self, result: dict[str, Any]) -> None:
        """Append one result to the JSON file."""
        put(self.json, {**result, **machine()})

    def budget(self, name: str, measured: float, sign: str, limit: float) -> None:
        """Compare with a budget: `≥` or `≤`."""
        held = measured >= limit if sign == "≥" else measured <= limit
        self.budgets.append([name, measured, f"{sign} {cell(limit)}", held])
        self.record(
            {"bench": "budget", "what": name, "measured": measured, "budget": f"{sign} {limit:g}", "held": held}
        )


def crawls(bench: Bench, site: Site, times: int, *, scrapy: bool) -> None:
    """Our crawl and the ceiling in turn, then Scrapy in its three forms."""
    turns: Sequence[Contestant] = [CEILING, OURS] * times + ([SCRAPY_LEAN, SCRAPY_SEEN, SCRAPY] if scrapy else [])
    done = [_crawl(bench, contestant, site) for contestant in turns]
    print(f"\n{site.name}\n{crawls_table(done)}")
    _warn(done)
    ours, ceiling = _of(OURS, done), _of(CEILING, done)
    bench.budget("pages/s ÷ ceiling", _rate(ours) / _rate(ceiling), "≥", 0.8)
    if scrapy:
        plain, seen = _of(SCRAPY, done), _of(SCRAPY_SEEN, done)
        bench.budget("pages/s ÷ Scrapy", _rate(ours) / _rate(plain), "≥", 10)
        bench.budget("pages/s ÷ Scrapy with a seen-set", _rate(ours) / _rate(seen), "≥", 4)
        bench.budget("CPU a page ÷ Scrapy's", _cpu(ours) / _cpu(plain), "≤", 0.2)
    bench.budget("a node's steady memory, MB", max(c.usage.parts["node"].steady for c in ours) / 1e6, "≤", 150)
    if scrapy:
        lean = _of(SCRAPY_LEAN, done)
        print(f"\npages/s ÷ {SCRAPY_LEAN.name} (in memory, no budget): {_rate(ours) / _rate(lean):.2f}")
        print(f"CPU a page ÷ {SCRAPY_LEAN.name}'s: {_cpu(ours) / _cpu(lean):.2f}")
    print(f"\n{OURS.name}, the last crawl\n{parts_table(ours[-1].usage)}")
    print(f"CPU a page ÷ ceiling's: {_cpu(ours) / _cpu(ceiling):.2f}")
    print("the ceiling runs with the garbage-collection thresholds, allocator settings and CPU settings of a node")


def slow(bench: Bench) -> None:
    """Slow sites: pages/s compared with what the slots allow."""
    rows = []
    for latency, pages in ((0.02, 60), (0.2, 80)):
        with slow_site(latency, pages=pages) as site:
            done = [_crawl(bench, contestant, site) for contestant in (CEILING, OURS)]
            allowed = NODES * _SLOTS / latency
            rows += [[site.name, c.contestant, c.rows, c.usage.wall, c.pages_per_s, allowed, c.cpu_ms] for c in done]
            _warn(done)
    heads = ["site", "crawler", "pages", "s", "pages/s", f"{NODES * _SLOTS} slots allow", "CPU ms/page"]
    print(f"\n{table(heads, rows)}")


def appender(bench: Bench) -> None:
    """Rows per second of the appender, measured by its own program."""
    rows = []
    for kind in ("csv", "jsonl", "sqlite"):
        command = [sys.executable, "-m", "tests.bench.appender", "--type", kind]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        match = re.search(r"([\d,]+) rows/s", done.stdout)
        if done.returncode or not match:
            raise RuntimeError(f"appender.py: exit {done.returncode}\n{done.stdout}{done.stderr}")
        speed = float(match[1].replace(",", ""))
        rows.append([kind, speed])
        bench.record({"bench": "appender", "type": kind, "rows_per_s": speed})
        if kind == "csv":
            bench.budget("appender, CSV rows/s", speed, "≥", 100_000)
    print(f"\n{table(['appender', 'rows/s'], rows)}")


def single(bench: Bench, jobs: int) -> None:
    """Leases, snapshots and starts."""
    results = []
    for result in micro.measurements(jobs):
        results.append(result)
        bench.record(result)
        if result["budget"]:
            jobs_text = f", {result['jobs']:,} jobs" if result["jobs"] else ""
            limit = float(result["budget"].removeprefix("≤ "))
            bench.budget(f"{result['what']}{jobs_text}, {result['unit']}", result["value"], "≤", limit)
    print(f"\n{micro.micro_table(results)}")


def profile(bench: Bench, site: Site) -> None:
    """CPU of the stages of a page."""
    results = stages.stages(site, 2000)
    bench.record({"bench": "stages", "micros": {stage.name: stage.micros for stage in results}})
    print(f"\n{stages.stages_table(results)}")


def _crawl(bench: Bench, contestant: Contestant, site: Site) -> Crawl:
    print(f"… {contestant.name} on {site.name}", file=sys.stderr, flush=True)
    done = crawl(contestant, site)
    bench.record(done.as_dict())
    return done


def _of(contestant: Contestant, done: Sequence[Crawl]) -> list[Crawl]:
    return [c for c in done if c.contestant == contestant.name]


def _rate(done: Sequence[Crawl]) -> float:
    return statistics.median(c.pages_per_s for c in done)


def _cpu(done: Sequence[Crawl]) -> float:
    return statistics.median(c.cpu_ms for c in done)


def _warn(done: Sequence[Crawl]) -> None:
    pages = {c.contestant: c.rows for c in done}
    if len(set(pages.values())) > 1:
        print(f"crawlers fetched different numbers of pages: {pages}")
    if any(c.others > _QUIET for c in done):
        print("other processes keep this machine busy: wall times and their ratios mean little in this run")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,…", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--site", default="auto", help="auto, generated, or a folder")
    parser.add_argument("--pages", type=int, default=10_000, help="of a generated site")
    parser.add_argument("--times", type=int, default=2, help="crawls of ours and of the ceiling, in turn")
    parser.add_argument("--jobs", type=int, default=micro.MANY, help="READY jobs of the large data dir")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append results as JSON lines")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"unknown part: {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    bench, started = Bench(options.json), time.monotonic()
    print(f"{machine_line()}\nload {os.getloadavg()[0]:.2f}")
    if {"crawl", "scrapy", "stages"} & set(chosen):
        with chosen_site(options.site, options.pages) as site:
            if {"crawl", "scrapy"} & set(chosen):
                crawls(bench, site, options.times, scrapy="scrapy" in chosen)
            if "stages" in chosen:
                profile(bench, site)
    parts: dict[str, Callable[[], None]] = {
        "slow": lambda: slow(bench),
        "appender": lambda: appender(bench),
        "micro": lambda: single(bench, options.jobs),
    }
    for name, work in parts.items():
        if name in chosen:
            print(f"… {name}", file=sys.stderr, flush=True)
            work()
    if bench.budgets:
        print(f"\n{table(['budget', 'measured', 'limit', 'held'], bench.budgets)}")
    print(f"\n{time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
