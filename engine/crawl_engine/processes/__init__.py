"""Child processes: starts, signals and reaps them. Knows no run and no job."""
