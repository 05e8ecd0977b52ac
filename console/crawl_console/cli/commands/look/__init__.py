"""Commands that show a run: its state, jobs, events and logs."""
