"""The supervisor: one for each data dir. Starts, watches, restarts and stops nodes and the appender; never fetches."""
