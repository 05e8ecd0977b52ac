"""Deletes what the limits of a data dir no longer allow: old runs, documents and events."""
