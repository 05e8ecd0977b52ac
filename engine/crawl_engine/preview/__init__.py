"""Previews: the results of defs on a page, outside a run."""
