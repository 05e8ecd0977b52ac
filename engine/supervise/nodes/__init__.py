"""The processes of a run: starts, monitors, replaces and scales nodes and the appender."""
