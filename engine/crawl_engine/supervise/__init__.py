"""The supervisor, one per data dir: starts, monitors, restarts and stops nodes and the appender."""
