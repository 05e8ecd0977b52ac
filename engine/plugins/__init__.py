"""Users' code: its contracts, its files, and how it is loaded."""
