"""Converts tables of items, dims and facts to records. Says of each table what it could not convert, and why."""
