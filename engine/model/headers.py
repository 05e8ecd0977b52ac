"""Names of request headers: which are harmless to pass on and to store, and which only the client may set."""

SAFE_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "dnt",
        "pragma",
        "save-data",
        "upgrade-insecure-requests",
        "user-agent",
    }
)
"""Headers that are safe to send to any origin and to store as written. Any other header may hold a secret."""

FIXED_HEADERS = frozenset({"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding",
                           "upgrade", "proxy-connection", "proxy-authorization"})  # fmt: skip
"""Headers that defs cannot set: they follow from the URL and the body, or belong to one connection."""
