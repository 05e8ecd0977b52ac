#!/usr/bin/env python3
"""How many rows a second the appender writes: reading from crawl.db, encoding, fsync and cursors included.

usage: appender.py [--rows N] [--type csv|jsonl|sqlite]      prints one line: type, rows, seconds, rows/s
"""

import argparse
import sys
import tempfile
import time
from contextlib import closing
from decimal import Decimal
from pathlib import Path

from tests.contract.append.harness import Harness, run_until_idle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--type", default="csv", choices=["csv", "jsonl", "sqlite"])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(Path(folder), asked.type)
        made = [
            {
                "title": f"Book {i}, a catalogue page",
                "price": Decimal(f"{i % 90}.{i % 100:02d}"),
                "stock": i % 2 == 0,
                "tags": ["fiction", "used"],
                "parts": f"http://shop.example/catalogue/{i}/index.html",
            }
            for i in range(asked.rows)
        ]
        harness.add(made)
        with closing(harness.appender()) as appender:
            appender.run_turn()  # the file stands, with its header
            began, cpu = time.perf_counter(), time.process_time()
            run_until_idle(appender)
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        assert len(harness.written()) == asked.rows
    print(f"{asked.type}: {asked.rows} rows in {seconds:.2f} s ({cpu:.2f} s CPU), {asked.rows / seconds:,.0f} rows/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
