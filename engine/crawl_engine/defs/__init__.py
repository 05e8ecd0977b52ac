"""Loads and validates defs: YAML files to `Definitions`."""
