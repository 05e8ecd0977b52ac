"""Checks of the defs beyond the type of each key."""
