"""Outputs: cursors of files and of senders."""
