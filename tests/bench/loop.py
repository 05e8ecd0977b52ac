"""The ceiling: two processes crawl a site in memory; nothing is queued or stored.

They share the URLs by hash. The parent works like the supervisor: it loads the defs and spawns `python -m` children,
with the allocator settings of nodes. It prints a JSON object.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from engine.defs.loader import load
from engine.settings import Settings

PARTS = 2
MALLOC_ENV = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_TRIM_THRESHOLD_": "4194304",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
}
"""Equal to those that the supervisor sets for its children; a test compares them."""


def crawl(defs: Path, profile: Path | None) -> dict[str, float]:
    """Crawl by the defs; return pages, rows and seconds."""
    started = time.monotonic()
    definitions = load(defs).definitions
    setup = json.dumps({"definitions": definitions.to_json(), "settings": Settings().to_json()})
    ends = socket.socketpair()
    children = []
    for part, end in enumerate(ends):
        command = [sys.executable, "-m", "tests.bench.loop_start", "--part", str(part), "--socket", str(end.fileno())]
        if profile is not None:
            command += ["--profile", f"{profile}.{part}"]
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[end.fileno()],
            env={**MALLOC_ENV, **os.environ},
        )
        end.close()
        assert child.stdin is not None
        child.stdin.write(setup.encode() + b"\n")
        child.stdin.flush()
        children.append(child)
    parts = [json.loads(child.communicate()[0]) for child in children]
    if any(child.returncode for child in children):
        raise SystemExit("a part of the ceiling failed; its message is above")
    totals = {name: sum(part[name] for part in parts) for name in parts[0]}
    return {**totals, "seconds": time.monotonic() - started}


def main() -> int:
    parser = argparse.ArgumentParser(description="Crawl in memory, in two processes.")
    parser.add_argument("--defs", type=Path, required=True, metavar="DIR")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="write cProfile statistics to FILE.0 and FILE.1")
    options = parser.parse_args()
    print(json.dumps(crawl(options.defs, options.profile)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
