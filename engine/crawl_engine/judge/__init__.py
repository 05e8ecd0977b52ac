"""What the figures of a run mean: one function answers each question. It writes no table."""
