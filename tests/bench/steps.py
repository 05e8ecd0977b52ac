"""Compares a crawl whose pages go through a plugin step with one on the default chain, in turns.

Also measures a command with eight workers that take a second for each page.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

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


@contextlib.contextmanager
def serve(pages: int, size: int) -> Iterator[str]:
    """Serve generated pages; yields the URL of the first."""
    arguments = [sys.executable, "-m", "tests.bench.server", "--pages", str(pages), "--size", str(size)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        [(host, port)] = json.loads(server.stdout.readline())
        yield f"http://{host}:{port}/index.html"
        server.communicate()


def crawl(url: str, steps: str, nodes: int) -> tuple[float, float, int]:
    """Pages/s from the first second on, CPU seconds a thousand pages, pages done."""
    with tempfile.TemporaryDirectory(prefix="crawl-console-bench-") as folder:
        plugins = Path(folder, "defs", "plugins")
        plugins.mkdir(parents=True)
        (plugins / "bench.py").write_text(PLUGIN)
        (plugins / "slow.py").write_text(SLOW)
        score = "score: {fromStep: true, type: int}" if steps else "size: {value: x}"
        Path(folder, "defs", "bench.yml").write_text(DEFS.format(url=url, steps=steps, score=score))
        command = [sys.executable, "-m", "console", "run", "--no-ui", "--json", "--progress", "quiet"]
        before, began = os.times(), time.monotonic()
        done = subprocess.run(
            [*command, "--defs", f"{folder}/defs", "--data", f"{folder}/data", "--nodes", str(nodes)],
            stdout=subprocess.PIPE, check=True, env={**os.environ, "XDG_STATE_HOME": folder},
        )  # fmt: skip
        seconds, after = time.monotonic() - began, os.times()
        pages = json.loads(done.stdout.splitlines()[-1])["jobs"]["done"]
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return pages / seconds, cpu / pages * 1000, pages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=3_000)
    parser.add_argument("--size", type=int, default=28_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=2)
    options = parser.parse_args()
    with serve(options.pages, options.size) as url:
        pairs = []
        for _ in range(options.pairs):
            default, step = crawl(url, "", options.nodes), crawl(url, PYTHON_STEP, options.nodes)
            pairs.append((default, step))
            print(
                f"default {default[0]:.0f} pages/s, {default[1]:.2f} CPU s per 1,000 pages;"
                f" Python step {step[0]:.0f} pages/s, {step[1]:.2f} CPU s;"
                f" ratio {step[0] / default[0]:.2f}, CPU {step[1] / default[1]:.2f}"
            )
        print(f"Python step: {median(step[0] / default[0] for default, step in pairs):.2f} of the default's pages/s")
    with serve(200, options.size) as url:
        rate, _, pages = crawl(url, COMMAND.format(python=sys.executable), 1)
        print(f"command, 8 workers of 1 s: {rate:.2f} pages/s on one node ({pages} pages, start and end included)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
