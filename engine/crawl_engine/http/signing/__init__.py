"""Signatures of requests, by which a site knows the crawler (Web Bot Auth)."""
