"""HTTP requests and responses: sending, decoding, redirects."""
