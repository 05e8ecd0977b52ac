"""crawl-console: the command line, the headless way and the terminal console. The engine never imports it."""
