"""Rows, their keys and sums, files, and the health of the data."""
