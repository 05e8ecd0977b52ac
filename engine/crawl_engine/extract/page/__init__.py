"""A fetched page, the job it belongs to, and what its extraction may use."""
