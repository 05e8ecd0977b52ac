"""Holds the package `crawl_console`, which the wheel puts beside `engine`."""
