#!/usr/bin/env python3
"""Measures rows per second of the appender, with reading, encoding, fsync and cursors.

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
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(Path(folder), options.type)
        rows = [
            {
                "title": f"Book {i}, a catalogue page",
                "price": Decimal(f"{i % 90}.{i % 100:02d}"),
                "stock": i % 2 == 0,
                "tags": ["fiction", "used"],
                "parts": f"http://shop.example/catalogue/{i}/index.html",
            }
            for i in range(options.rows)
        ]
        harness.add(rows)
        with closing(harness.appender()) as appender:
            appender.run_turn()  # writes the file's header
            started, cpu = time.perf_counter(), time.process_time()
            run_until_idle(appender)
            seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        assert len(harness.written()) == options.rows
    rate = options.rows / seconds
    print(f"{options.type}: {options.rows} rows in {seconds:.2f} s ({cpu:.2f} s CPU), {rate:,.0f} rows/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
