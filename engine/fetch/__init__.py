"""One HTTP exchange, and what is to be known about it: sending, decoding, redirects, robots, waits. No SQL."""
