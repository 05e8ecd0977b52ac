"""A helper for tests, run as a program: it notes its starts and ends in a file, and behaves as its arguments say."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

parser = argparse.ArgumentParser()
parser.add_argument("name")
parser.add_argument("notes", type=Path)
parser.add_argument("--port", type=int)
parser.add_argument("--line")
parser.add_argument("--after", type=float, default=0.0, help="Seconds until it listens and prints.")
parser.add_argument("--lives", type=float, default=600.0, help="Seconds until it ends with exit code 7.")
parser.add_argument("--lives-first", type=float, help="The same, of its first start.")
parser.add_argument("--ignore-term", action="store_true")
options = parser.parse_args()


def note(text: str) -> None:
    with options.notes.open("a") as file:
        file.write(f"{options.name} {text}\n")


def count_processes(name: str) -> int:
    """The live processes of the crawl with this name."""
    folder, count = str(options.notes.parent), 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        count += folder in line and path.with_name("comm").read_text().strip() == name
    return count


def end(_number: int, _frame: FrameType | None) -> None:
    note(f"term nodes={count_processes('node')} appenders={count_processes('appender')}")
    if not options.ignore_term:
        os._exit(0)


is_first = not options.notes.exists() or f"{options.name} start" not in options.notes.read_text()
signal.signal(signal.SIGTERM, end)
child = subprocess.Popen(["sleep", "600"], preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
note(f"start {os.getpid()} {child.pid}")
time.sleep(options.after)
if options.port:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", options.port))
    listener.listen()
if options.line:
    sys.stderr.write(f"now {options.line}!\n")
deadline = time.monotonic() + (options.lives_first if options.lives_first and is_first else options.lives)
while time.monotonic() < deadline:
    time.sleep(0.05)
sys.stdout.write("giving up\n")
sys.stdout.flush()
sys.exit(7)
