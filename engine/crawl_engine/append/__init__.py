"""The appender: one process that writes the rows of a run to its output files."""
