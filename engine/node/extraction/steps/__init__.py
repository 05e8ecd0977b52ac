"""Runs the users' code of a task's chain."""
