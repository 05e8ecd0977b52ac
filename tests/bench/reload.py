"""Measures re-extraction: pages/s from the store compared with pages/s of the crawl that stored them.

Both are measured between 10 % and 90 % of the pages, so that starting and ending processes do not count. Prints a JSON
object: the rates, their ratio, and the requests during re-extraction.
"""

import argparse
import contextlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

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
_DONE = "SELECT total(done) FROM sequences WHERE kind = 'page'"
_WORKED = "SELECT reextracted FROM runs ORDER BY seq DESC LIMIT 1"


class _Sampler(threading.Thread):
    """Polls a number in crawl.db every 10 ms."""

    def __init__(self, path: Path, sql: str) -> None:
        super().__init__(daemon=True)
        self._path, self._sql = path, sql
        self.samples: list[tuple[float, float]] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self._path.exists():
            if self.stopped.wait(0.01):
                return
        db = sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, timeout=5)
        while not self.stopped.wait(0.01):
            with contextlib.suppress(sqlite3.Error, TypeError):
                self.samples.append((time.monotonic(), float(db.execute(self._sql).fetchone()[0])))
        db.close()

    def rate(self) -> float:
        """Per second, between 10 % and 90 % of the last value."""
        last = max(value for _, value in self.samples)
        inner = [(at, value) for at, value in self.samples if 0.1 * last <= value <= 0.9 * last]
        (started, first), (ended, final) = inner[0], inner[-1]
        return (final - first) / (ended - started)


def _timed(command: list[str], folder: Path, sql: str) -> float:
    sampler = _Sampler(folder / "data" / "crawl.db", sql)
    sampler.start()
    try:
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    finally:
        sampler.stopped.set()
        sampler.join()
    return sampler.rate()


def measure(site: Site, concurrency: int) -> dict[str, float]:
    """Crawl a site, change a field, extract; then change it back."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "defs").mkdir()
        crawl = [sys.executable, "-m", "console"]

        def save(match: str) -> None:
            text = _DEFS.format(start=site.starts[0], match=match, concurrency=concurrency)
            (folder / "defs" / "site.yml").write_text(text)

        save("Class C[0-9]+")
        crawled = _timed([*crawl, "run", "--no-ui", "--nodes", "2", "--progress", "quiet"], folder, _DONE)
        before = site.hits()
        save("C[0-9]+")
        extracted = _timed([*crawl, "extract", "--set", "nodes=2"], folder, _WORKED)
        return {
            "pages": float(sqlite3.connect(folder / "data" / "crawl.db").execute(_DONE).fetchone()[0]),
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
