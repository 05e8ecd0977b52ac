"""Runs one crawler on one site as a user would, and measures it."""

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

FOLDER = Path(__file__).parent
PROJECT = FOLDER.parent.parent


@dataclass(frozen=True, slots=True)
class Contestant:
    """A crawler: its command for start URLs and a fresh folder, and how to count its rows."""

    name: str
    command: Callable[[Sequence[str], Path], list[str]]
    """From start URLs and a fresh folder."""
    count_rows: Callable[[str, Path], int]
    """From its stdout and its folder."""


@dataclass(frozen=True, slots=True)
class Crawl:
    """The result of one crawl."""

    contestant: str
    site: str
    rows: int
    requests: int
    usage: Measured
    server_cpu: float
    """Seconds, of the site's server."""

    @property
    def pages_per_s(self) -> float:
        """Each page has one row."""
        return self.rows / self.usage.wall

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of CPU a page, over all processes of the crawler."""
        return self.usage.cpu / max(1, self.rows) * 1000

    @property
    def others(self) -> float:
        """Cores kept busy by other processes: above 0.1, wall times mean little."""
        return max(0.0, self.usage.others - self.server_cpu) / self.usage.wall

    def as_dict(self) -> dict[str, Any]:
        """As one JSON object."""
        return {
            "bench": "crawl", "crawler": self.contestant, "site": self.site, "pages": self.rows,
            "requests": self.requests, "seconds": round(self.usage.wall, 3), "pages_per_s": round(self.pages_per_s, 1),
            "cpu_seconds": round(self.usage.cpu, 3), "cpu_ms_page": round(self.cpu_ms, 4), "cpu_by": self.usage.cpu_by,
            "peak_bytes": self.usage.peak, "largest_process_bytes": self.usage.largest,
            "parts": {name: asdict(part) for name, part in self.usage.parts.items()},
            "server_cpu_seconds": round(self.server_cpu, 3), "other_cores": round(self.others, 3),
        }  # fmt: skip


def crawl(contestant: Contestant, site: Site, *, timeout: float = 600.0) -> Crawl:
    """Run a crawler on the site. Raises RuntimeError when it fails."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        command = contestant.command(site.starts, folder)
        before, cpu = site.hits(), site.cpu()
        usage = measure(command, cwd=PROJECT, env=_environment(), timeout=timeout)
        if usage.exit_code:
            output = f"{usage.stdout[-1000:]}\n{usage.stderr[-3000:]}"
            raise RuntimeError(f"{contestant.name}: exit {usage.exit_code}\n{output}")
        rows = contestant.count_rows(usage.stdout, folder)
        return Crawl(contestant.name, site.name, rows, site.hits() - before, usage, site.cpu() - cpu)


def _environment() -> dict[str, str]:
    state = str(Path(tempfile.gettempdir()) / "crawl-console-bench")
    return {**os.environ, "PYTHONPATH": str(PROJECT), "XDG_STATE_HOME": state}


# ── the five crawlers ────────────────────────────────────────────────────────────────────────────────────────────────

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
"""Concurrent requests to one host, for every crawler."""
NODES = 2


def write_defs(starts: Sequence[str], folder: Path) -> Path:
    """Write the defs that our crawl and the ceiling share; return their directory."""
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
    installed = Path(sys.executable).with_name("crawl-console")
    program = str(installed) if installed.exists() else shutil.which("crawl-console")
    if program is None:
        raise RuntimeError("crawl-console is not installed beside this Python: pip install -e .[bench]")
    return [program]


def _ours(starts: Sequence[str], folder: Path) -> list[str]:
    defs, data = str(write_defs(starts, folder)), str(folder / "data")
    return [*console(), "run", "--no-ui", "--json", "--defs", defs, "--data", data, "--nodes", str(NODES)]


def _ours_rows(stdout: str, folder: Path) -> int:
    summary = json.loads(stdout.strip().splitlines()[-1])
    rows = _csv_rows(folder / "data" / "output" / "latest" / "page.csv")
    if summary["rows"].get("page") != rows:
        raise RuntimeError(f"the summary says {summary['rows']}, the file has {rows} rows")
    return rows


def _ceiling(starts: Sequence[str], folder: Path) -> list[str]:
    return [sys.executable, "-m", "tests.bench.loop", "--defs", str(write_defs(starts, folder))]


def _ceiling_rows(stdout: str, folder: Path) -> int:
    return int(json.loads(stdout.strip().splitlines()[-1])["rows"])


def _scrapy(module: str, *, job_dir: bool, event_loop: str | None = None) -> Callable[[Sequence[str], Path], list[str]]:
    def command(starts: Sequence[str], folder: Path) -> list[str]:
        settings = {"JOBDIR": str(folder / "job")} if job_dir else {}
        if event_loop is not None:  # the reactor is installed before the spider's own settings are read
            settings["ASYNCIO_EVENT_LOOP"] = event_loop
        flags = [part for name, value in settings.items() for part in ("-s", f"{name}={value}")]
        spider, output = str(FOLDER / f"{module}.py"), str(folder / "pages.csv")
        return [
            *(sys.executable, "-m", "scrapy", "runspider", spider, *flags),
            *("-a", f"starts={' '.join(starts)}", "-O", output),
        ]

    return command


def _scrapy_rows(stdout: str, folder: Path) -> int:
    return _csv_rows(folder / "pages.csv")


def _csv_rows(path: Path) -> int:
    with path.open(newline="", encoding="utf-8") as file:
        urls = [row["url"] for row in csv.DictReader(file, strict=True)]
    if len(urls) != len(set(urls)):
        print(f"{path.name}: {len(urls) - len(set(urls))} duplicate pages", file=sys.stderr)
    return len(urls)


OURS = Contestant("crawl-console", _ours, _ours_rows)
CEILING = Contestant("ceiling", _ceiling, _ceiling_rows)
SCRAPY = Contestant("scrapy", _scrapy("scrapy_plain", job_dir=True), _scrapy_rows)
SCRAPY_LEAN = Contestant("scrapy, lean", _scrapy("scrapy_lean", job_dir=False, event_loop="uvloop.Loop"), _scrapy_rows)
SCRAPY_SEEN = Contestant("scrapy, seen-set", _scrapy("scrapy_seen", job_dir=True), _scrapy_rows)


# ── one crawler ───────────────────────────────────────────────────────────────────────────────────────────────────────


def crawls_table(crawls: Sequence[Crawl]) -> str:
    """Several crawls side by side. `largest` is one process; `other cores`: cores kept busy by other processes."""
    heads = ["crawler", "pages", "s", "pages/s", "CPU ms/page", "peak MB", "largest MB", "requests", "site CPU ms"]
    return table(
        [*heads, "other cores"],
        [
            [
                c.contestant, c.rows, c.usage.wall, c.pages_per_s, c.cpu_ms, c.usage.peak / 1e6, c.usage.largest / 1e6,
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
    options = parser.parse_args()
    if options.site == "slow":
        served = slow_site(options.latency / 1000, pages=options.pages or 50)
    else:
        served = chosen_site(options.site, options.pages or 10_000)
    print(machine_line())
    with served as site:
        print(site.name)
        crawls = [crawl(contestant, site) for _ in range(options.times)]
    print(crawls_table(crawls))
    print(parts_table(crawls[-1].usage))
    for done in crawls:
        put(options.json, {**done.as_dict(), **machine()})
    return 0
