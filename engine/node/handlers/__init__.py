"""What a node does for each kind of job: pages, robots.txt, sitemaps, logins, files, re-extractions."""
