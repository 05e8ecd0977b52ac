"""Previews: what defs extract from a page, outside a run."""
