"""Measures the memory of a node and its browsers over a crawl of pages that scripts write.

The last tenth of the pages must need at most 1.1 times the memory of the first. Memory is the proportional size (PSS)
of the node, and of all processes of its browsers with their drivers. Needs the extra `browser`, and Chromium on PATH.
"""

import argparse
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

from crawl_engine.browser.find import find_browser
from crawl_engine.settings import Settings
from tests.bench.browsers import ALL, Contest
from tests.bench.crawlers import PROJECT
from tests.bench.report import machine_line, table
from tests.bench.site import scripted_site

_SECONDS = 0.5
"""Between two samples."""
_MOST = 1.1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.browser_memory", description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000)
    parser.add_argument("--at-once", type=int, default=4, help="pages of a browser at once")
    parser.add_argument("--browser", metavar="PROGRAM", help="default: that of crawl-console")
    options = parser.parse_args()
    chromium = find_browser(Settings(browser=options.browser))
    contest = Contest(pages=options.pages, at_once=options.at_once, chromium=chromium)
    print(f"{machine_line()}\n{chromium}, load {os.getloadavg()[0]:.2f}")
    with scripted_site(1) as site, tempfile.TemporaryDirectory(prefix="bench-") as made:
        folder = Path(made)
        command, _ = contest.ours(ALL)(site, folder)
        environment = {**os.environ, "PYTHONPATH": str(PROJECT), "XDG_STATE_HOME": str(folder / "state")}
        began = time.monotonic()
        crawl = subprocess.Popen(command, cwd=folder, env=environment)
        samples = []
        while crawl.poll() is None:
            time.sleep(_SECONDS)
            samples.append((_count_done(folder / "data/crawl.db"), *_measure(crawl.pid)))
        seconds = time.monotonic() - began
    tenths: list[list[tuple[int, int]]] = [[] for _ in range(10)]
    for done, node, browsers in samples:
        if 0 < done < options.pages and browsers:
            tenths[10 * done // options.pages].append((node, browsers))
    rows = [
        [number + 1, median(node for node, _ in tenth) / 1e6, median(browsers for _, browsers in tenth) / 1e6]
        for number, tenth in enumerate(tenths)
        if tenth
    ]
    print(table(["tenth", "node, MB", "browsers, MB"], rows))
    if crawl.returncode or not (tenths[0] and tenths[-1]):
        print("the crawl failed, or is too short", file=sys.stderr)
        return crawl.returncode or 1
    first, last = (median(sum(pair) for pair in tenth) for tenth in (tenths[0], tenths[-1]))
    print(f"{options.pages:,} pages in {seconds:,.0f} s; the last tenth has {last / first:.2f} of the first")
    return int(last > _MOST * first)


def _count_done(path: Path) -> int:
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db,
    ):
        return int(db.execute("SELECT count(*) FROM jobs WHERE state = 'DONE' AND origin = 'locator'").fetchone()[0])
    return 0


def _measure(root: int) -> tuple[int, int]:
    """The bytes of the nodes, and of the browsers with their drivers."""
    node = browsers = 0
    for process in psutil.Process(root).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "/data/browsers/" in process.cwd():  # the driver is a "node" of its own
                browsers += process.memory_full_info().pss
            elif process.name() == "node":
                node += process.memory_full_info().pss
    return node, browsers


if __name__ == "__main__":
    sys.exit(main())
