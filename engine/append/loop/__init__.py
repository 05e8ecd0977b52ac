"""Writes the rows of a run to files, and what every loop of the appender shares."""
