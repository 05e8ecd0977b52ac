"""Several machines work for one run: who is silent, who leads, and what the others do."""
