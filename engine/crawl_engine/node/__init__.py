"""A node: answers doorbells, fetches and extracts leased jobs, commits the results.

A job passes through: slice → fetch_loop → pipeline → handlers → requests → extraction → committer → ringer. `build`
wires these parts.
"""
