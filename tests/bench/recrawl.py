"""Measures a second run of unchanged pages with `revalidate`: `python -m tests.bench.recrawl`.

Two sites: leaf pages, each named by a locator, and link-heavy pages that lead to each other. The server needs as long
for a 304 as for a 200. The second run must fetch no body and give the same rows.
"""

import argparse
import csv
import json
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.bench.crawlers import run_command
from tests.bench.measure import Measured, measure
from tests.bench.pages import path_of
from tests.bench.report import machine, machine_line, put, table
from tests.bench.site import Site, served_pages

_LINKS = '    links: [{selector: "a[href]", allow: ["\\\\.html$"]}]\n'
_DEFS = """\
locatorGroups: {{docs: {{locators: [{{from: {seeds}}}]}}}}
taskGroups: {{docs: {{revalidate: true, page: {{dataDef: page}}}}}}
dataDefs:
  page:
    fields: {{url: {{value: "%{{document.url}}"}}, title: {{selector: title}}, heads: {{selector: h2, all: true}}}}
{links}"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The pages/s of two runs on one site, and the bodies that the second one fetched."""

    site: str
    pages: int
    first: Measured
    second: Measured
    bodies: int

    @property
    def ratio(self) -> float:
        """Pages/s of the second run, divided by those of the first."""
        return self.first.wall / self.second.wall


def compare(name: str, pages: int, size: int, *, linked: bool, latency: float) -> Comparison:
    """Crawl a site twice. Raises RuntimeError where the rows of a run are not those of the site."""
    with served_pages(pages, size, latency=latency, versions=True) as site, tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        origin = site.starts[0].removesuffix("/index.html")
        numbers = [0] if linked else range(pages)
        (project / "seeds.txt").write_text("".join(f"{origin}{path_of(number)}\n" for number in numbers))
        (project / "defs").mkdir()
        links = _LINKS if linked else ""
        text = _DEFS.format(seeds=project / "seeds.txt", links=links)
        (project / "defs" / "docs.yml").write_text(text)
        first = _run(project, pages)
        _counts(site)
        second = _run(project, pages)
        hits, unchanged = _counts(site)
        if hits != pages:
            raise RuntimeError(f"the second run sent {hits} requests for {pages} pages")
        return Comparison(name, pages, first, second, hits - unchanged)


def _run(project: Path, pages: int) -> Measured:
    usage = measure(run_command(project / "defs", project / "data"), timeout=900)
    if usage.exit_code:
        raise RuntimeError(usage.stderr[-2000:])
    with (project / "data/output/latest/page.csv").open(newline="", encoding="utf-8") as file:
        rows = [row["url"] for row in csv.DictReader(file)]
    if len(rows) != pages or len(set(rows)) != pages:
        raise RuntimeError(f"{len(rows)} rows, {len(set(rows))} of them distinct, for {pages} pages")
    return usage


def _counts(site: Site) -> tuple[int, int]:
    """Requests, and those answered with 304, since the last call."""
    with urllib.request.urlopen(site.starts[0].replace("/index.html", "/.bench?forget"), timeout=10) as response:
        counts = json.load(response)
    return counts["hits"], counts["unchanged"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare a second run of unchanged pages with the first.")
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--latency", type=float, default=5.0, metavar="MS")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append the results as JSON lines")
    options = parser.parse_args()
    latency = options.latency / 1000
    done = [
        compare("leaf pages of 100 kB", options.pages, 100_000, linked=False, latency=latency),
        compare("link-heavy pages of 28 kB", options.pages, 28_000, linked=True, latency=latency),
    ]
    for one in done:
        put(options.json, {"bench": "recrawl", "site": one.site, "ratio": one.ratio, "bodies": one.bodies, **machine()})
    rows = [
        [
            c.site,
            c.pages,
            c.pages / c.first.wall,
            c.pages / c.second.wall,
            c.ratio,
            c.second.cpu / c.first.cpu,
            c.bodies,
        ]
        for c in done
    ]
    print(table(["site", "pages", "first pages/s", "second pages/s", "ratio", "CPU ratio", "bodies"], rows))
    print(machine_line())
    return 0 if all(c.ratio >= 1 and not c.bodies for c in done) else 1


if __name__ == "__main__":
    sys.exit(main())
