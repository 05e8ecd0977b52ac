"""The work of a node for each kind of job: pages, robots.txt, sitemaps, logins, files, re-extractions."""
