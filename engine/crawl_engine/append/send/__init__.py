"""Gives rows to receivers, programs and plugin classes."""
