"""Measures the ceiling: the same client and extraction in two processes without queue or database."""

import sys

from tests.bench.contest import CEILING, alone

if __name__ == "__main__":
    sys.exit(alone(CEILING))
