"""Measures crawl-console: 2 nodes, durable, documents stored, rows in a CSV file."""

import sys

from tests.bench.contest import OURS, alone

if __name__ == "__main__":
    sys.exit(alone(OURS))
