"""Plugins: their contracts, their files, and how they are loaded."""
