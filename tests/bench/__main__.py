"""Runs the measurements and prints them with their budgets: `python -m tests.bench [--only PART,…]`."""

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench import micro, peers, size
from tests.bench.crawlers import OURS, SCRAPY, SCRAPY_LEAN
from tests.bench.report import cell, machine, machine_line, put, table
from tests.bench.site import slow_site

PARTS = ("peers", "slow", "appender", "micro", "size")
_SLOTS = 32
_NODES = 2
_PEER_LIMITS = {"small": (SCRAPY_LEAN, 0.85), "large": (SCRAPY, 0.2)}
"""The most of a peer's CPU that ours may take, by site."""


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


def compare(bench: Bench, sites: list[str], times: int) -> None:
    """Whole crawls of the crawlers, in turns."""
    done = []
    for name in sites:
        with peers.site_of(name) as site:
            for crawl in peers.rounds(site, times):
                done.append(crawl)
                bench.record(crawl.as_dict())
            if name in _PEER_LIMITS:
                peer, limit = _PEER_LIMITS[name]
                ours, theirs = (
                    statistics.median(c.cpu_ms for c in done if (c.site, c.crawler) == (site.name, crawler.name))
                    for crawler in (OURS, peer)
                )
                bench.budget(f"CPU ÷ {peer.name}, {site.name}", ours / theirs, "≤", limit)
    peak = max(crawl.usage.peak for crawl in done if crawl.crawler == OURS.name)
    bench.budget("memory of all processes, MB", peak / 1e6, "≤", 300)
    print(f"\n{peers.report(done)}")


def slow(bench: Bench) -> None:
    """Slow sites: pages/s compared with what the slots allow."""
    rows = []
    for latency, pages in ((0.02, 60), (0.2, 80)):
        with slow_site(latency, pages=pages) as site:
            done = peers.crawl(OURS, site, "--nodes", str(_NODES))
            allowed = _NODES * _SLOTS / latency
            rows.append([site.name, done.pages, done.usage.wall, done.pages_per_s, allowed, done.cpu_ms])
            bench.record(done.as_dict())
    bench.budget("pages/s of pages of 200 ms ÷ what the slots allow", rows[-1][3] / rows[-1][4], "≥", 0.9)
    heads = ["site", "pages", "s", "pages/s", f"{_NODES * _SLOTS} slots allow", "CPU ms/page"]
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


def large(bench: Bench, pages: int, minutes: float) -> None:
    """A large crawl: its speed and memory by tenths, and what commands on its data dir take."""
    done = size.crawl(pages, minutes)
    bench.record(done.as_dict())
    for name, measured, sign, limit in done.budgets():
        bench.budget(name, measured, sign, limit)
    print(f"\n{done.report()}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS[:-1]), metavar="PART,…", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--sites", default=",".join(peers.SITES), metavar="SITE,…", help="of the peers")
    parser.add_argument("--rounds", type=int, default=5, help="crawls of each site by each peer, in turns")
    parser.add_argument("--pages", type=int, default=1_000_000, help="of the part `size`")
    parser.add_argument("--minutes", type=float, default=25.0, help="after which `size` stops gracefully")
    parser.add_argument("--jobs", type=int, default=micro.MANY, help="READY jobs of the large data dir")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append results as JSON lines")
    options = parser.parse_args()
    chosen, sites = options.only.split(","), options.sites.split(",")
    if unknown := {*chosen} - {*PARTS} | {*sites} - {*peers.SITES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join([*PARTS, *peers.SITES])}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that crawlers and servers end with this process
    bench, started = Bench(options.json), time.monotonic()
    print(f"{machine_line()}\nload {os.getloadavg()[0]:.2f}")
    parts: dict[str, Callable[[], None]] = {
        "peers": lambda: compare(bench, sites, options.rounds),
        "slow": lambda: slow(bench),
        "appender": lambda: appender(bench),
        "micro": lambda: single(bench, options.jobs),
        "size": lambda: large(bench, options.pages, options.minutes),
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
