"""The room of defs: YAML on disk to checked `Definitions`. Knows files and the language; no store, no network."""
