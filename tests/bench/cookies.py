"""Compares a site that changes a cookie with every answer with the same site without cookies.

    python -m tests.bench.cookies [--pages N] [--rounds N]

Each round crawls the site without cookies, with `cookieJar: perNode`, and with `cookieJar: shared`, in an order that
changes. Prints pages/s and CPU of all processes, and the medians of the ratios within a round: the machine may be busy.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from tests.bench.measure import measure
from tests.bench.report import table
from tests.bench.site import Site, served_pages

_DEFS = """\
locatorGroups: {{pages: {{locators: [{{url: "{start}"}}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{title: {{selector: title}}}}, links: [{{selector: "a[href]"}}]}}}}
hosts: {{"127.0.0.1": {{concurrency: 32, cookieJar: {jar}}}}}
"""
_VARIANTS = ("none", "perNode", "shared")
_LEAST = 0.9


def crawl(site: Site, jar: str, pages: int) -> tuple[float, float]:
    """Pages per second, and CPU milliseconds per page."""
    with tempfile.TemporaryDirectory() as folder:
        defs = Path(folder, "crawl.yml")
        defs.write_text(_DEFS.format(start=site.starts[0], jar=jar))
        command = [
            sys.executable,
            "-m",
            "crawl_console",
            "run",
            "--no-ui",
            "--json",
            "--nodes",
            "2",
            "--set",
            "robots=false",
        ]
        done = measure([*command, "--defs", str(defs), "--data", f"{folder}/data"])
        summary = json.loads(done.stdout.splitlines()[-1])
        if done.exit_code or summary["jobs"]["done"] != pages:
            raise RuntimeError(f"exit {done.exit_code}, {summary['jobs']}\n{done.stderr[-2000:]}")
        return summary["pages_per_s"], done.cpu / pages * 1000


def main() -> int:
    """Crawl, compare, print; returns 1 where a variant with cookies is too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {name: [] for name in _VARIANTS}
    costs: dict[str, list[float]] = {name: [] for name in _VARIANTS}
    with served_pages(options.pages) as plain, served_pages(options.pages, sets_cookie=True) as changing:
        for number in range(options.rounds):
            for name in (*_VARIANTS[number % 3 :], *_VARIANTS[: number % 3]):
                site, jar = (plain, "perNode") if name == "none" else (changing, name)
                rate, cost = crawl(site, jar, options.pages)
                rates[name].append(rate)
                costs[name].append(cost)
    rows, worst = [], 1.0
    for name in _VARIANTS:
        ratio = statistics.median(rate / plain for rate, plain in zip(rates[name], rates["none"], strict=True))
        cost = statistics.median(cost / plain for cost, plain in zip(costs[name], costs["none"], strict=True))
        worst = min(worst, ratio)
        rows.append([name, statistics.median(rates[name]), ratio, statistics.median(costs[name]), cost])
    print(table(["cookies", "pages/s", "ratio", "CPU ms a page", "ratio"], rows))
    return 0 if worst >= _LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
