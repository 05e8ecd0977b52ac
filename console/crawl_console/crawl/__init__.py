"""What consoles know of a crawl and do to it: nothing here draws, prints or serves."""
