# `just` alone = lint + types + arch + tests

default: lint types arch test

# what ruff finds
lint:
    ruff check .
    ruff format --check .

# strict types
types:
    mypy

# which room may import which
arch:
    lint-imports

# every test but the long sweeps; one worker more than cores, since many tests wait
test *ARGS:
    pytest -n $(({{num_cpus()}} + 1)) {{ARGS}}

# tests against real processes and signals
test-process *ARGS:
    pytest tests/process {{ARGS}}

# the long seeded sweeps
sweep *ARGS:
    pytest -m sweep --timeout 3600 {{ARGS}}

# kill random processes of crawl after crawl, and count what is lost or doubled
kills *ARGS:
    python -m tests.process.kills {{ARGS}}

# format, and mend what can be mended
fmt:
    ruff check --fix .
    ruff format .

# measure ourselves beside a ceiling and Scrapy
bench *ARGS:
    python -m tests.bench {{ARGS}}

# crawl the bundled shop
demo *ARGS:
    crawl-console demo --no-ui --data data {{ARGS}}

# coverage of the tests, child processes not counted
cover:
    coverage run -m pytest tests/unit tests/contract
    coverage combine
    coverage report

# pin what is installed here: names and versions, no addresses
lock:
    pip freeze --exclude-editable | grep -v '^crawl-console' > constraints.txt

# draw the golden screens of the console anew; then look at what changed
snap:
    SNAP=1 pytest tests/console/test_golden.py

# draw the pictures of the console that the documents show
shots:
    python -m tests.console.shots
