"""Runs the plugin code of a task's chain."""
