"""The commands `init` and `schema`: a project to begin with, and the language as editors read it."""

import os
from pathlib import Path

import click
import orjson

from engine.defs.loader import load
from engine.defs.schema import build_json_schema
from engine.errors import StorageError, UsageError

SCHEMA_FILE = "defs.schema.json"

_DEFS_TEMPLATE = f"""\
# yaml-language-server: $schema=../{SCHEMA_FILE}
#
# Where to start, what to do with the pages, what to take from them. An editor that reads the line above offers keys and
# explains them. Put your site's address in, then, in the folder above this one:
#
#   crawl-console check                         tells every mistake, with its line
#   crawl-console try book URL                  shows what one page gives; nothing is stored
#   crawl-console run --no-ui --max-pages 20    a first crawl; rows are in data/output/latest

locatorGroups:                    # where to start
  books:
    locators:
      - {{name: catalogue, url: "https://shop.example/catalogue/page-1.html"}}

taskGroups:                       # what to do with the pages of a group
  books:                          # the same name as the locator group
    list: {{dataDef: book}}         # a task: a name of your choice, and the dataDef it applies
  detail:                         # a group without locators: links lead here
    page: {{dataDef: bookDetail}}

dataDefs:                         # what to take from a page, and which of its links to follow
  book:
    query: {{block: "article.product_pod"}}       # one record for each match
    key: [url]                                  # what makes a row the same across runs
    fields:
      title: {{selector: "h3 a", attribute: title, required: true}}
      price: {{selector: ".price_color", match: "[0-9.]+", type: decimal}}
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

hosts:                            # manners
  shop.example: {{delay: 0.5, concurrency: 2}}
"""

_SETTINGS_TEMPLATE = """\
# Settings of crawl-console, for commands started in this folder. All may be left out; what stands behind a # is the
# default. Flags and CRAWL_* variables win over this file.

# nodes = 2                       # processes that fetch and extract; default: one a CPU, 2 to 4
# delay = 0.0                     # seconds between two requests to a host
# host_concurrency = 8            # requests at once, to one host
# robots = true                   # whether robots.txt is obeyed
# live = "PT0S"                   # a stored page younger than this is not fetched again: P1D, PT12H
# max_attempts = 4                # requests for one page that fails for a while
# deadline = 30.0                 # seconds one request may take
# max_failed = 0                  # jobs that may fail before the exit code is 1

# How sites know you: put your address in.
# user_agent = "my-crawler/1.0 (+https://my.example/bot)"

# A command to run when a run has ended; the summary, as JSON, is on its stdin.
# on_end = ["python3", "notify.py"]
"""

_GITIGNORE = """\
/data/
"""


def init(folder: Path) -> int:
    """Write a project into a new or empty folder; returns 0. Raises UsageError where something is there already."""
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
        raise StorageError(f"{error.filename}: {error.strerror}", "Choose another place, or mend this one.") from error
    load(folder / "defs")
    click.echo(f"{folder}: {', '.join(files)}")
    step = "" if folder.resolve() == Path.cwd() else f"cd {folder}, "
    click.echo(f"Next: {step}put your site's address into defs/books.yml, then `crawl-console check`;")
    click.echo("`crawl-console try book URL` shows what a page gives, `crawl-console run` crawls.")
    return 0


def show_schema() -> int:
    """Write the JSON Schema of the defs to stdout."""
    click.echo(_schema_json(), nl=False)
    return 0


def _check_empty(folder: Path) -> None:
    try:
        held = sorted(entry for entry in os.listdir(folder) if entry != ".git")  # noqa: PTH208 - names are wanted
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", "Name a new folder, or an empty one.") from error
    if held:
        more = f" and {len(held) - 3} more" if len(held) > 3 else ""
        raise UsageError(
            f"{folder}: not empty, it holds {', '.join(held[:3])}{more}; nothing was changed",
            "Name a new folder, or an empty one.",
        )


def _schema_json() -> str:
    return orjson.dumps(build_json_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
