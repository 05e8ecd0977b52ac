"""Schedules of crawls: their times, and the files that start them. Nothing here reads a crawl."""
