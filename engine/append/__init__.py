"""Appenders: one process writes the rows of a run to its output files. Knows no pages, no nodes, no defs."""
