"""Commands that read, check and try defs."""
