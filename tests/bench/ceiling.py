"""Measures the ceiling: what the same client, parser and extraction give in two processes without queue or database."""

import sys

from tests.bench.contest import CEILING, alone

if __name__ == "__main__":
    sys.exit(alone(CEILING))
