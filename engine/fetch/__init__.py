"""HTTP requests and responses: sending, decoding, redirects, robots.txt, waits."""
