#!/usr/bin/env python3
"""Measures rows per second of the appender, with reading, encoding, fsync and cursors.

usage: appender.py [--rows N] [--type csv|jsonl|parquet|sqlite|duckdb] [--object file|s3]
Prints one line: type, rows, seconds, rows/s. `s3` is a server of this process, on the loopback address.
"""

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from decimal import Decimal
from pathlib import Path
from typing import Any

from crawl_engine.append.loop.chosen_outputs import WholeOutputs
from crawl_engine.append.loop.turns import TurnResult
from crawl_engine.model.output_type import is_whole
from tests.contract.append.harness import COLUMN_TYPES, TYPES, Harness, recorded
from tests.object_store import running_store


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--type", default="csv", choices=TYPES)
    parser.add_argument("--object", choices=["file", "s3"], help="write an object of such a store")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        harness, more = Harness(folder, options.type), dict[str, Any]()
        types = {"column_types": {**COLUMN_TYPES, "parts": "str"}} if options.type == "parquet" else {}
        harness.declare("book", **types)
        if options.object:
            store = stack.enter_context(running_store())
            os.environ.update(store.environment)
            url = "s3://bench/book" if options.object == "s3" else f"file://{folder}/far/book"
            harness.declare("book", path=url, **types)  # type: ignore[arg-type]
            more = {"chosen": WholeOutputs("rows", "object"), "whole_every": 0.0}
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
        with closing(harness.appender(**more)) as appender:
            if not options.object and not is_whole(options.type):
                appender.run_turn()  # writes the header of a file that grows
            started, cpu = time.perf_counter(), time.process_time()
            while appender.run_turn() is not TurnResult.IDLE:
                pass
            seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        assert recorded(harness).rows == options.rows
    rate, place = options.rows / seconds, f" to {options.object}" if options.object else ""
    print(f"{options.type}{place}: {options.rows} rows in {seconds:.2f} s ({cpu:.2f} s CPU), {rate:,.0f} rows/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
