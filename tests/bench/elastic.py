"""Compares a range of nodes with a fixed number, on bursts of slow pages with nothing to do in between.

    python -m tests.bench.elastic [--factor F] [--requests N] [--nodes RANGE ...] [--no-kills]

Three bursts of two minutes, three minutes apart, of pages that take a second, `--requests` of them at once (the limit
of their host). The page that lists the next burst is on a host of its own, which answers 503 with `Retry-After` until
the three minutes are over. In the middle of each burst a node is killed (SIGKILL). `--factor` shortens bursts, pauses,
`node_wait` and `node_idle`; the pages still take a second, and a node its second to start. Prints wall seconds,
node-seconds and whether every row is there once. Exits with 1 where one is not.
"""

import argparse
import math
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.process.project import Project
from tests.process.site import Page, Request, Site, html, serve_site

_BURSTS, _BURST_SECONDS, _PAUSE_SECONDS, _PAGE_SECONDS = 3, 120.0, 180.0, 1.0
_WAIT_SECONDS, _IDLE_SECONDS = 5.0, 60.0
_SPREAD = 0.3
"""Pages take up to so much more or less than their mean."""
_DEFS = """\
locatorGroups: {{bursts: {{locators: [{{url: "{start}"}}]}}}}
taskGroups:
  bursts: {{list: {{dataDef: burst}}}}
  pages: {{page: {{dataDef: page}}}}
dataDefs:
  burst:
    fields: {{name: {{selector: h1}}}}
    links:
      - {{selector: "a.page", linkGroup: pages}}
      - {{selector: "a.burst", linkGroup: bursts}}
  page:
    fields: {{title: {{selector: h1}}}}
hosts:
  "127.0.0.1:{lists}": {{private: true, robots: false}}
  "127.0.0.1:{pages}": {{private: true, robots: false, concurrency: {requests}}}
"""


@dataclass(frozen=True, slots=True)
class Result:
    """One crawl."""

    nodes: str
    seconds: float
    node_seconds: float
    started: int
    """Nodes, replacements of killed ones included."""
    bursts: tuple[float, ...]
    """Seconds from the first request of each to its last answer."""
    exact: bool

    def __str__(self) -> str:
        bursts = ", ".join(f"{seconds:.1f}" for seconds in self.bursts)
        return (
            f"nodes {self.nodes}: {self.seconds:.1f} s (bursts {bursts}), {self.node_seconds:.0f} node-seconds,"
            f" {self.started} nodes started, rows {'exact' if self.exact else 'WRONG'}"
        )


class Bursts:
    """The two sites: lists of pages, and the pages."""

    def __init__(self, lists: Site, pages: Site, count: int, pause: float) -> None:
        self._lists = lists
        self._pages = pages
        self._count = count
        self._pause = pause
        self._random = random.Random(1)
        self._done = [threading.Event() for _ in range(_BURSTS)]
        self._left = [{f"/{burst}/{page}" for page in range(count)} for burst in range(_BURSTS)]
        self.times: list[list[float]] = [[] for _ in range(_BURSTS)]
        """Of each burst: when its requests came."""
        for burst in range(_BURSTS):
            lists[f"/{burst}"] = self._list
        pages.fallback = self._page

    @property
    def titles(self) -> Counter[str]:
        """The rows of an exact crawl."""
        return Counter(f"page {burst}/{page}" for burst in range(_BURSTS) for page in range(self._count))

    def duration(self, burst: int) -> float:
        """Seconds of a burst."""
        return max(self.times[burst]) + _PAGE_SECONDS - min(self.times[burst])

    def _list(self, request: Request) -> Page:
        burst = int(request.path[1:])
        if burst:
            before = self._done[burst - 1]
            opens_at = max(self.times[burst - 1]) + _PAGE_SECONDS + self._pause if before.is_set() else None
            if opens_at is None or opens_at > time.monotonic() + 1:
                left = self._pause if opens_at is None else opens_at - time.monotonic()
                return Page("later", 503, {"Retry-After": str(math.ceil(left))}, hold=before)
        links = "".join(f'<a class="page" href="{self._pages.url(f"/{burst}/{n}")}">x</a>' for n in range(self._count))
        following = f'<a class="burst" href="/{burst + 1}">x</a>' if burst + 1 < _BURSTS else ""
        return Page(html(f"<h1>burst {burst}</h1>{links}{following}"))

    def _page(self, request: Request) -> Page:
        burst = int(request.path.split("/")[1])
        self.times[burst].append(time.monotonic())
        self._left[burst].discard(request.path)
        if not self._left[burst]:
            self._done[burst].set()
        delay = _PAGE_SECONDS * self._random.uniform(1 - _SPREAD, 1 + _SPREAD)
        return Page(html(f"<h1>page {request.path[1:]}</h1>"), delay=delay)


def crawl(nodes: str, factor: float, requests: int, *, kills: bool) -> Result:
    """One crawl with these nodes."""
    count = round(requests * _BURST_SECONDS * factor / _PAGE_SECONDS)
    with serve_site() as lists, serve_site() as pages, tempfile.TemporaryDirectory(prefix="elastic-") as folder:
        bursts = Bursts(lists, pages, count, _PAUSE_SECONDS * factor)
        project = Project(Path(folder))
        project.write(_DEFS.format(start=lists.url("/0"), lists=lists.port, pages=pages.port, requests=requests))
        settings = {
            "nodes": nodes, "node_wait": _WAIT_SECONDS * factor, "node_idle": _IDLE_SECONDS * factor, "deadline": 900,
        }  # fmt: skip
        where = ["--defs", str(project.defs), "--data", str(project.data), "--progress", "quiet"]
        assigned = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        began = time.monotonic()
        running = project.start_command("run", "--no-ui", "--json", *where, *assigned)
        killed = 0
        while not running.exited:
            time.sleep(0.1)
            times = bursts.times[killed] if killed < _BURSTS else []
            if kills and times and time.monotonic() - times[0] > _BURST_SECONDS * factor / 2:
                os.kill(random.choice(project.children("node")), signal.SIGKILL)
                killed += 1
        seconds = time.monotonic() - began
        done = running.wait()
        if done.code != 0:
            raise AssertionError(f"exit {done.code}\n{done.err}\n{project.logs()[-3000:]}")
        [(node_seconds, started)] = project.query("SELECT total(ended_at - started_at), count(*) FROM nodes")
        exact = Counter(row["title"] for row in project.rows("page")) == bursts.titles
        exact = exact and (not kills or killed == _BURSTS)
        durations = tuple(bursts.duration(burst) for burst in range(_BURSTS))
        return Result(nodes, seconds, node_seconds, started, durations, exact)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--factor", type=float, default=1.0)
    parser.add_argument("--requests", type=int, default=64, help="at once, of each burst; one node has 32 slots")
    parser.add_argument("--nodes", nargs="+", default=["4", "1-4"], metavar="RANGE")
    parser.add_argument("--no-kills", action="store_true")
    options = parser.parse_args()
    results = []
    for nodes in options.nodes:
        results.append(crawl(nodes, options.factor, options.requests, kills=not options.no_kills))
        print(results[-1], flush=True)
    for result in results[1:]:
        print(
            f"{result.nodes} ÷ {results[0].nodes}: {result.seconds / results[0].seconds:.3f} of the time,"
            f" {result.node_seconds / results[0].node_seconds:.3f} of the node-seconds"
        )
    return 0 if all(result.exact for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
