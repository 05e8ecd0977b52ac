"""The commands `init` and `schema`: create a project, and print the JSON Schema that its editor uses."""

import os
from pathlib import Path

import click

from crawl_console.cli.options import FilePath, common_options, object_option
from crawl_console.cli.output import write_json
from crawl_engine.errors import StorageError, UsageError

SCHEMA_FILE = "defs.schema.json"

_DEFS_TEMPLATE = f"""\
# yaml-language-server: $schema=../{SCHEMA_FILE}
#
# Where to start, what to do with the pages, what to extract from them. An editor that reads the line above completes
# and explains keys. Put the address of your site in, then run in the parent folder:
#
#   crawl-console check                         reports every problem, with its line
#   crawl-console try book URL                  shows the rows of one page; nothing is stored
#   crawl-console run --no-ui --max-pages 20    a first crawl; rows are in data/output/latest
#   crawl-console test --record URL --data-def book    keeps a page and its rows; `crawl-console test` compares

locatorGroups:                    # where to start
  books:
    locators:
      - {{name: catalogue, url: "https://shop.example/catalogue/page-1.html"}}

taskGroups:                       # what to do with the pages of a group
  books:                          # the same name as the locator group
    list: {{dataDef: book}}         # a task: a name of your choice, and the dataDef it applies
  detail:                         # a group without locators: links lead here
    page: {{dataDef: bookDetail}}

dataDefs:                         # what to extract from a page, and which links to follow
  book:
    query: {{block: "article.product_pod"}}       # one record for each match
    key: [url]                                  # identifies a row across runs
    fields:
      title: {{selector: "h3 a", attribute: title, required: true}}
      price: {{selector: ".price_color", type: price}}        # amount and currency
      stock: {{selector: ".availability", type: bool, match: In stock, default: false}}
      url: {{selector: "h3 a", attribute: href, type: url}}
    links:
      - {{selector: "li.next a"}}                            # back into this group: pagination
      - {{selector: "h3 a", linkGroup: detail}}

  bookDetail:                     # no block: the whole page is one record
    key: [url]
    fields:
      url: {{value: "%{{document.url}}"}}
      upc: {{selector: "table tr:nth-child(1) td"}}
      text: {{selector: "#product_description + p"}}

hosts:                            # request rates
  shop.example: {{delay: 0.5, concurrency: 2}}
"""

_SETTINGS_TEMPLATE = """\
# Settings of crawl-console, for commands started in this folder. All are optional; the commented values are the
# defaults. Flags and CRAWL_* variables override this file.

# nodes = 2                       # processes that fetch and extract; default: 1, more while jobs wait
# delay = 0.0                     # seconds between two requests to a host
# host_concurrency = 8            # concurrent requests to one host
# robots = true                   # whether to obey robots.txt
# live = "PT0S"                   # a stored page younger than this is not fetched again: P1D, PT12H
# max_attempts = 4                # requests for one page that keeps failing
# deadline = 30.0                 # seconds one request may take
# max_failed = 0                  # failed jobs above which the exit code is 1

# How the crawler identifies itself to sites: put your contact address in.
# user_agent = "my-crawler/1.0 (+https://my.example/bot)"

# A command to run before a run starts; the run ends if it fails.
# on_start = ["python3", "prepare.py"]

# A command to run after a run has ended; it gets the summary as JSON on stdin.
# on_end = ["python3", "notify.py"]

# A command to run for each new alarm; it gets the alarms as JSON on stdin.
# on_alarm = ["python3", "notify.py"]

# Receivers of messages about ended runs and alarms; URLs of apprise.
# notify = ["mailto://me:%{env.MAIL_PASSWORD}@mail.example"]

# A program that runs beside the crawl; such tables stand below all settings.
# [helpers.proxy]
# run = ["squid", "-N", "-f", "squid.conf"]
# ready = {port = 3128}           # or {line = "a text in its output"}
# stop = 5                        # seconds between SIGTERM and SIGKILL
"""

_GITIGNORE = """\
/data/
"""


@click.command()
@click.argument("folder", metavar="DIR", type=FilePath())
@object_option
@common_options()
def init(folder: Path, as_json: bool) -> int:
    """Create a project in a new or empty folder."""
    return create_project(folder, as_json=as_json)


def create_project(folder: Path, *, as_json: bool = False) -> int:
    """Write a project into a new or empty folder; returns 0. Raises UsageError for a folder in use, StorageError."""
    from crawl_engine.defs.loader import load

    _check_empty(folder)
    files = {
        "defs/books.yml": _DEFS_TEMPLATE,
        "crawl.toml": _SETTINGS_TEMPLATE,
        ".gitignore": _GITIGNORE,
        SCHEMA_FILE: _schema_json(),
    }
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise StorageError(f"{error.filename}: {error.strerror}", "Choose another place, or fix this one.") from error
    load(folder / "defs")
    if as_json:
        write_json({"folder": str(folder), "files": list(files)})
        return 0
    click.echo(f"{folder}: {', '.join(files)}")
    step = "" if folder.resolve() == Path.cwd() else f"cd {folder}, "
    click.echo(f"Next: {step}put the address of your site into defs/books.yml, then run `crawl-console check`.")
    click.echo("`crawl-console try book URL` shows the rows of one page, `crawl-console run` crawls.")
    return 0


def _check_empty(folder: Path) -> None:
    try:
        entries = sorted(entry for entry in os.listdir(folder) if entry != ".git")  # noqa: PTH208 - only the names
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", "Name a new folder, or an empty one.") from error
    if entries:
        more = f" and {len(entries) - 3} more" if len(entries) > 3 else ""
        raise UsageError(
            f"{folder}: not empty, it holds {', '.join(entries[:3])}{more}; nothing was changed",
            "Name a new folder, or an empty one.",
        )


@click.command()
@common_options()
def schema() -> int:
    """Print the JSON Schema of the defs, for editors."""
    click.echo(_schema_json(), nl=False)
    return 0


def _schema_json() -> str:
    import orjson

    from crawl_engine.defs.language.schema import build_json_schema

    return orjson.dumps(build_json_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
