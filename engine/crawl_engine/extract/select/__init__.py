"""Selectors of every kind, on a page or in a block, and the texts of their matches."""
