"""The requests of jobs: sent in the turn of their host, with the secrets of their variables."""
