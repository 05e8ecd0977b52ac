"""Selectors of every kind, on a page or in a block, and the texts of what they select."""
