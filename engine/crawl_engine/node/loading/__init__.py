"""Plugin loaders: processes that fetch pages in place of the built-in client."""
