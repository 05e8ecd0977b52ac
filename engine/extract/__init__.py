"""From a page to its rows and links. Knows parsers and patterns; fetches nothing, stores nothing, reads no defs."""
