"""Compares a crawl whose pages go through a plugin step with one on the default chain, in turns.

Also measures a command with eight workers that take a second for each page.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

from tests.bench.measure import measure
from tests.bench.site import served_pages

DEFS = """\
locatorGroups:
  pages: {{locators: [{{url: "{url}"}}]}}
taskGroups:
  pages:
    page: {{dataDef: page{steps}}}
dataDefs:
  page:
    fields:
      title: {{selector: h1}}
      summary: {{selector: h2}}
      {score}
    links: [{{selector: "a[href]"}}]
hosts: {{"127.0.0.1": {{robots: false, concurrency: 64}}}}
"""
PYTHON_STEP = ", steps: {jsoupDefault: {mark: {class: bench.Mark, previous: filter, next: appender}}}"
COMMAND = (
    ", steps: {{jsoupDefault: {{mark: {{class: command, run: [{python}, plugins/slow.py], previous: filter,"
    " next: appender, workers: 8, limit: 10}}}}}}"
)
PLUGIN = """\
class Mark:
    def run(self, rows, context):
        for row in rows:
            row["score"] = len(row["title"])
        return rows
"""
SLOW = "import sys, time\nfor line in sys.stdin:\n    time.sleep(1)\n    print(line, end='', flush=True)\n"


def crawl(url: str, steps: str, nodes: int) -> tuple[float, float, int]:
    """Pages/s from the first second on, CPU seconds a thousand pages, pages done."""
    with tempfile.TemporaryDirectory(prefix="crawl-console-bench-") as folder:
        plugins = Path(folder, "defs", "plugins")
        plugins.mkdir(parents=True)
        (plugins / "bench.py").write_text(PLUGIN)
        (plugins / "slow.py").write_text(SLOW)
        score = "score: {fromStep: true, type: int}" if steps else "size: {value: x}"
        Path(folder, "defs", "bench.yml").write_text(DEFS.format(url=url, steps=steps, score=score))
        command = [sys.executable, "-m", "crawl_console", "run", "--no-ui", "--json", "--progress", "quiet"]
        where = ["--defs", f"{folder}/defs", "--data", f"{folder}/data", "--nodes", str(nodes)]
        done = measure([*command, *where], env={**os.environ, "XDG_STATE_HOME": folder})
        if done.exit_code:
            raise RuntimeError(f"exit {done.exit_code}\n{done.stderr[-2000:]}")
        pages = json.loads(done.stdout.splitlines()[-1])["jobs"]["done"]
    return pages / done.wall, done.cpu / pages * 1000, pages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=3_000)
    parser.add_argument("--size", type=int, default=28_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=2)
    options = parser.parse_args()
    with served_pages(options.pages, options.size) as site:
        pairs = []
        for _ in range(options.pairs):
            default, step = crawl(site.starts[0], "", options.nodes), crawl(site.starts[0], PYTHON_STEP, options.nodes)
            pairs.append((default, step))
            print(
                f"default {default[0]:.0f} pages/s, {default[1]:.2f} CPU s per 1,000 pages;"
                f" Python step {step[0]:.0f} pages/s, {step[1]:.2f} CPU s;"
                f" ratio {step[0] / default[0]:.2f}, CPU {step[1] / default[1]:.2f}"
            )
        print(f"Python step: {median(step[0] / default[0] for default, step in pairs):.2f} of the default's pages/s")
    with served_pages(200, options.size) as site:
        rate, _, pages = crawl(site.starts[0], COMMAND.format(python=sys.executable), 1)
        print(f"command, 8 workers of 1 s: {rate:.2f} pages/s on one node ({pages} pages, start and end included)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
