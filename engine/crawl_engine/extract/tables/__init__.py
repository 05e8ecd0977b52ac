"""Reads the tables that axes describe."""
