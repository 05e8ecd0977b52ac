"""Reads JSON, CSV, XML and sitemaps, and searches trees of lxml."""
