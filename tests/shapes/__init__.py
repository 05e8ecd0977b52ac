"""Recorded shapes of runs: their situations second by second, and when they ended."""
