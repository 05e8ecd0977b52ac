"""Finds the links, requests and next pages that a page leads to."""
