# lint, types, arch, dead and test
default: lint types arch dead test

# the same, and the other process tests
all: default extended browsers

# ruff: rules and format
lint:
    ruff check .
    ruff format --check .

# mypy, strict
types:
    mypy

# import contracts
arch:
    lint-imports

# dead code, except for the names that [tool.vulture] in pyproject.toml lists with their reasons
dead:
    vulture

# unit, contract and console tests, and a process test for each promise and command
test *ARGS:
    # two workers a CPU, because most tests wait
    pytest -n $(({{num_cpus()}} * 2)) --durations=25 -m 'not sweep and not extended and not browser' {{ARGS}}

# the other process tests, with a sample of those of browsers
extended *ARGS:
    pytest -n $(({{num_cpus()}} * 2)) --durations=25 -m 'extended and not sweep' {{ if ARGS == '' { 'tests/contract tests/console tests/process' } else { ARGS } }}

# all tests of pages in a browser; they need Chromium
browsers *ARGS:
    pytest -n $(({{num_cpus()}} * 2)) --durations=25 -m 'browser and not sweep' {{ARGS}}

# tests with real processes and signals
test-process *ARGS:
    pytest tests/process {{ARGS}}

# the long seeded sweeps
sweep *ARGS:
    pytest -m sweep --timeout 3600 {{ARGS}}

# kill random processes of many crawls; count rows lost and doubled
kills *ARGS:
    python -m tests.process.kills {{ARGS}}

# crawl each hostile answer beside 200 good pages; print what it did to nodes, rows, memory and time
hostile *ARGS:
    python -m tests.hostile {{ARGS}}

# fix and format
fmt:
    ruff check --fix .
    ruff format .

# compare with Scrapy and wget2; measure slow sites, the appender, leases and starts
bench *ARGS:
    python -m tests.bench {{ARGS}}

# compare the recipes of the documentation with Scrapy spiders: lines and CPU
recipes *ARGS:
    python -m tests.bench.recipes {{ARGS}}

# crawl the bundled demo shop
demo *ARGS:
    crawl-console demo --no-ui --data data {{ARGS}}

# test coverage, without child processes
cover:
    coverage run -m pytest tests/unit tests/contract
    coverage combine
    coverage report

# pin the installed packages: names and versions, no addresses
lock:
    pip freeze --exclude-editable | grep -v '^crawl-console' > constraints.txt

# redraw the golden screens of the console; check the difference, then `just shots`
snap:
    SNAP=1 pytest tests/console/test_golden.py

# draw the console screenshots of the documentation
shots:
    python -m tests.console.shots
