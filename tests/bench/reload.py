"""Measures re-extraction: pages/s from the store compared with pages/s of the crawl that stored them.

Both are measured between 10 % and 90 % of the pages, so that starting and ending processes do not count. Prints a JSON
object: the rates, their ratio, and the requests during re-extraction.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from crawl_engine.store.db.sqlite import sqlite3
from tests.bench.poller import DONE, REEXTRACTED, Poller
from tests.bench.site import Site, generated_site, slow_site

_DEFS = """\
locatorGroups: {{pages: {{locators: [{{url: "{start}"}}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs:
  page:
    fields:
      title: {{selector: title}}
      class: {{selector: h1, match: "{match}"}}
      summary: {{selector: "section.detail h3"}}
      url: {{value: "%{{document.url}}"}}
    links: [{{selector: a}}]
hosts: {{"127.0.0.1": {{robots: false, concurrency: {concurrency}}}}}
"""


def _timed(command: list[str], folder: Path, sql: str) -> float:
    """The rate of a command, without its start and end."""
    with Poller(folder / "data" / "crawl.db", sql, 0.01) as poller:
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return poller.rate(0.1, 0.9)


def measure(site: Site, concurrency: int) -> dict[str, float]:
    """Crawl a site, change a field, extract; then change it back."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "defs").mkdir()
        crawl = [sys.executable, "-m", "crawl_console"]

        def save(match: str) -> None:
            text = _DEFS.format(start=site.starts[0], match=match, concurrency=concurrency)
            (folder / "defs" / "site.yml").write_text(text)

        save("Class C[0-9]+")
        crawled = _timed([*crawl, "run", "--no-ui", "--nodes", "2", "--progress", "quiet"], folder, DONE)
        before = site.hits()
        save("C[0-9]+")
        extracted = _timed([*crawl, "extract", "--set", "nodes=2"], folder, REEXTRACTED)
        return {
            "pages": float(sqlite3.connect(folder / "data" / "crawl.db").execute(DONE).fetchone()[0]),
            "crawl_pages_per_s": round(crawled, 1),
            "extract_pages_per_s": round(extracted, 1),
            "ratio": round(extracted / crawled, 2),
            "requests": site.hits() - before,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=5000)
    options = parser.parse_args()
    results = {}
    with generated_site(options.pages) as site:
        results["fast"] = measure(site, 64)
    with slow_site(0.02, hosts=1, pages=min(options.pages, 2000), size=28_000) as site:
        results["20 ms"] = measure(site, 8)
    print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
