"""The requests of jobs: sent in the turn of their host, with secrets and cookies that no job stores."""
