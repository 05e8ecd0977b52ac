"""The crawl engine: from defs on disk to rows on disk. Knows nothing of the console."""

__version__ = "0.1.0"
