"""Writes the rows of a run to files, and holds the code that every loop of the appender shares."""
