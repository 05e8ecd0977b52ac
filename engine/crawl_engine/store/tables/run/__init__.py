"""Runs: nodes, commands, events, def versions, checkpoints, figures."""
