"""Programs of the user that run beside a crawl, each under a guard."""
