"""The crawl engine: from defs on disk to rows on disk. Never imports the console."""

__version__ = "0.1.0"
