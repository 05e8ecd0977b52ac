"""A node: rings in, leased jobs through fetch and extraction, results out in fenced commits.

A job's way reads downwards: slice → fetch_loop → pipeline → harvest → committer → ringer. No supervisor, no screen.
"""
