"""Gives rows to receivers, programs and users' classes."""
