"""Extracts rows and links from fetched pages."""
