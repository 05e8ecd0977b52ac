"""The ceiling's crawl: two processes share a site by the hash of its URLs, all in memory, nothing queued or stored.

The parent starts as our supervisor does: it loads the defs and spawns `python -m` children. It prints a JSON object.
"""

import argparse
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

from engine.defs.loader import load
from engine.settings import Settings

PARTS = 2


def crawl(defs: Path, profile: Path | None) -> dict[str, float]:
    """Crawl what the defs say; returns pages, rows and seconds."""
    began = time.monotonic()
    definitions = load(defs).definitions
    told = json.dumps({"definitions": definitions.to_json(), "settings": Settings().to_json()})
    ends = socket.socketpair()
    children = []
    for part, end in enumerate(ends):
        command = [sys.executable, "-m", "tests.bench.loop_start", "--part", str(part), "--socket", str(end.fileno())]
        if profile is not None:
            command += ["--profile", f"{profile}.{part}"]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[end.fileno()])
        end.close()
        assert child.stdin is not None
        child.stdin.write(told.encode() + b"\n")
        child.stdin.flush()
        children.append(child)
    parts = [json.loads(child.communicate()[0]) for child in children]
    if any(child.returncode for child in children):
        raise SystemExit("a part of the ceiling ended badly; what it says is above")
    whole = {name: sum(part[name] for part in parts) for name in parts[0]}
    return {**whole, "seconds": time.monotonic() - began}


def main() -> int:
    parser = argparse.ArgumentParser(description="Crawl in memory, in two processes.")
    parser.add_argument("--defs", type=Path, required=True, metavar="DIR")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="write cProfile statistics to FILE.0 and FILE.1")
    asked = parser.parse_args()
    print(json.dumps(crawl(asked.defs, asked.profile)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
