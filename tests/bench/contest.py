"""One crawl of one site by one crawler, measured: the crawler's program is run as a user would run it."""

import argparse
import csv
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.bench.measure import Measured, measure, parts_table
from tests.bench.report import machine, machine_line, put, table
from tests.bench.site import Site, chosen_site, slow_site

ROOM = Path(__file__).parent
PROJECT = ROOM.parent.parent


@dataclass(frozen=True, slots=True)
class Contestant:
    """A crawler: how it is started on some URLs, with a folder of its own, and what it then says it made."""

    name: str
    command: Callable[[Sequence[str], Path], list[str]]
    """The program for start URLs, and a fresh folder."""
    made: Callable[[str, Path], int]
    """Rows, from its stdout and its folder."""


@dataclass(frozen=True, slots=True)
class Crawl:
    """What one crawl took."""

    contestant: str
    site: str
    rows: int
    requests: int
    took: Measured
    server_cpu: float
    """Seconds, of the site's server."""

    @property
    def pages_per_s(self) -> float:
        """Rows are pages here: one row each."""
        return self.rows / self.took.wall

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of CPU a page, over all processes of the crawler."""
        return self.took.cpu / max(1, self.rows) * 1000

    @property
    def others(self) -> float:
        """Cores that strangers to this bench kept busy meanwhile: with more than 0.1 the wall time means little."""
        return max(0.0, self.took.others - self.server_cpu) / self.took.wall

    def told(self) -> dict[str, Any]:
        """As one JSON object."""
        return {
            "bench": "crawl", "crawler": self.contestant, "site": self.site, "pages": self.rows,
            "requests": self.requests, "seconds": round(self.took.wall, 3), "pages_per_s": round(self.pages_per_s, 1),
            "cpu_seconds": round(self.took.cpu, 3), "cpu_ms_page": round(self.cpu_ms, 4), "cpu_by": self.took.cpu_by,
            "peak_bytes": self.took.peak, "largest_process_bytes": self.took.largest,
            "parts": {name: asdict(part) for name, part in self.took.parts.items()},
            "server_cpu_seconds": round(self.server_cpu, 3), "strangers_cores": round(self.others, 3),
        }  # fmt: skip


def crawl(contestant: Contestant, site: Site, *, timeout: float = 600.0) -> Crawl:
    """Let a crawler crawl the site from its start pages. Raises RuntimeError where it fails."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        command = contestant.command(site.starts, folder)
        before, cpu = site.hits(), site.cpu()
        took = measure(command, cwd=PROJECT, env=_environment(), timeout=timeout)
        if took.exit_code:
            said = f"{took.stdout[-1000:]}\n{took.stderr[-3000:]}"
            raise RuntimeError(f"{contestant.name}: exit {took.exit_code}\n{said}")
        rows = contestant.made(took.stdout, folder)
        return Crawl(contestant.name, site.name, rows, site.hits() - before, took, site.cpu() - cpu)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PROJECT)}


# ── the four crawlers ────────────────────────────────────────────────────────────────────────────────────────────────

_DEFS = """\
locatorGroups:
  docs: {{locators: [{{name: docs, urls: {starts}}}]}}
taskGroups:
  docs: {{page: {{dataDef: page}}}}
dataDefs:
  page:
    fields:
      url: {{value: "%{{document.url}}"}}
      title: {{selector: title}}
      headings: {{selector: "h2", all: true, join: "|"}}
    links:
      - {{selector: "a[href]", linkGroup: docs, allow: ["\\\\.html?$"]}}
hosts: {hosts}
"""
CONCURRENCY = 64
"""Requests at once to one host, for every crawler."""
NODES = 2


def write_defs(starts: Sequence[str], folder: Path) -> Path:
    """The defs our crawl and the ceiling share; returns their directory."""
    defs = folder / "defs"
    defs.mkdir()
    rule = {"concurrency": CONCURRENCY, "delay": 0, "robots": False}
    hosts = {str(urlsplit(url).hostname): rule for url in starts}
    (defs / "docs.yml").write_text(_DEFS.format(starts=json.dumps(list(starts)), hosts=json.dumps(hosts)))
    return defs


def console() -> list[str]:
    """The command of the installed crawl-console, or `$CRAWL`."""
    if "CRAWL" in os.environ:
        return shlex.split(os.environ["CRAWL"])
    beside = Path(sys.executable).with_name("crawl-console")
    found = str(beside) if beside.exists() else shutil.which("crawl-console")
    if found is None:
        raise RuntimeError("crawl-console is not installed beside this Python: pip install -e .[bench]")
    return [found]


def _ours(starts: Sequence[str], folder: Path) -> list[str]:
    defs, data = str(write_defs(starts, folder)), str(folder / "data")
    return [*console(), "run", "--no-ui", "--json", "--defs", defs, "--data", data, "--nodes", str(NODES)]


def _ours_made(stdout: str, folder: Path) -> int:
    told = json.loads(stdout.strip().splitlines()[-1])
    rows = _csv_rows(folder / "data" / "output" / "latest" / "page.csv")
    if told["rows"].get("page") != rows:
        raise RuntimeError(f"the summary says {told['rows']}, the file has {rows} rows")
    return rows


def _ceiling(starts: Sequence[str], folder: Path) -> list[str]:
    return [sys.executable, "-m", "tests.bench.loop", "--defs", str(write_defs(starts, folder))]


def _ceiling_made(stdout: str, folder: Path) -> int:
    return int(json.loads(stdout.strip().splitlines()[-1])["rows"])


def _scrapy(module: str) -> Callable[[Sequence[str], Path], list[str]]:
    def command(starts: Sequence[str], folder: Path) -> list[str]:
        return [
            sys.executable, "-m", "scrapy", "runspider", str(ROOM / f"{module}.py"), "-a", f"starts={' '.join(starts)}",
            "-s", f"JOBDIR={folder / 'job'}", "-O", f"{folder / 'pages.csv'}",
        ]  # fmt: skip

    return command


def _scrapy_made(stdout: str, folder: Path) -> int:
    return _csv_rows(folder / "pages.csv")


def _csv_rows(path: Path) -> int:
    with path.open(newline="", encoding="utf-8") as file:
        urls = [row["url"] for row in csv.DictReader(file, strict=True)]
    if len(urls) != len(set(urls)):
        print(f"{path.name}: {len(urls) - len(set(urls))} pages twice", file=sys.stderr)
    return len(urls)


OURS = Contestant("crawl-console", _ours, _ours_made)
CEILING = Contestant("ceiling", _ceiling, _ceiling_made)
SCRAPY = Contestant("scrapy", _scrapy("scrapy_plain"), _scrapy_made)
SCRAPY_SEEN = Contestant("scrapy, seen-set", _scrapy("scrapy_seen"), _scrapy_made)


# ── each alone ───────────────────────────────────────────────────────────────────────────────────────────────────────


def crawls_table(crawls: Sequence[Crawl]) -> str:
    """Several crawls side by side. `largest` is one process; `strangers`: cores others on the machine kept busy."""
    heads = ["crawler", "pages", "s", "pages/s", "CPU ms/page", "peak MB", "largest MB", "requests", "site CPU ms"]
    return table(
        [*heads, "strangers"],
        [
            [
                c.contestant, c.rows, c.took.wall, c.pages_per_s, c.cpu_ms, c.took.peak / 1e6, c.took.largest / 1e6,
                c.requests, c.server_cpu / max(1, c.rows) * 1000, c.others,
            ]
            for c in crawls
        ],
    )  # fmt: skip


def alone(contestant: Contestant) -> int:
    """The command line of a program that measures one crawler."""
    parser = argparse.ArgumentParser(description=f"Measure one crawl: {contestant.name}.")
    parser.add_argument("--site", default="auto", help="auto, generated, slow, or a folder")
    parser.add_argument("--pages", type=int, default=None, help="of a generated site, or of each slow host")
    parser.add_argument("--latency", type=float, default=20.0, metavar="MS", help="of the slow site")
    parser.add_argument("--times", type=int, default=1, help="crawls")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append results as JSON lines")
    asked = parser.parse_args()
    if asked.site == "slow":
        served = slow_site(asked.latency / 1000, pages=asked.pages or 50)
    else:
        served = chosen_site(asked.site, asked.pages or 10_000)
    print(machine_line())
    with served as site:
        print(site.name)
        crawls = [crawl(contestant, site) for _ in range(asked.times)]
    print(crawls_table(crawls))
    print(parts_table(crawls[-1].took))
    for done in crawls:
        put(asked.json, {**done.told(), **machine()})
    return 0
