"""`python -m console`: the same as the installed `crawl-console`."""

from console.cli import main

if __name__ == "__main__":
    main()
