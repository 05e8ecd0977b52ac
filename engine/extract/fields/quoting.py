"""Quotes texts of pages in messages."""


def quote_text(text: str) -> str:
    """A text quoted and escaped for a message, at most 60 characters."""
    return repr(text if len(text) <= 60 else text[:59] + "…")
