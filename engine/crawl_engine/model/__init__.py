"""Value types of a crawl: jobs, nodes, runs, definitions, records. Standard library only, no I/O."""
