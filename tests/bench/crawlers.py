"""The crawlers that the bench compares: their commands as a user would type them, and what they keep."""

import csv
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
PROJECT = FOLDER.parent.parent
CONCURRENCY = 64
"""Concurrent requests to one host, for every crawler."""
_WGET2_THREADS = 8
_DEFS = """\
locatorGroups:
  docs: {{locators: [{{name: docs, urls: {starts}}}]}}
taskGroups:
  docs: {{page: {{dataDef: page}}}}
dataDefs:
  page:
    fields:
      url: {{value: "%{{document.url}}"}}
      title: {{selector: title}}
      headings: {{selector: "h2", all: true, join: "|"}}
    links:
      - {{selector: "a[href]", linkGroup: docs, allow: ["\\\\.html?$"]}}
"""


@dataclass(frozen=True, slots=True)
class Crawler:
    """A program, its command for start URLs and a fresh folder, and how to count the pages it has got."""

    name: str
    command: Callable[[Sequence[str], Path], list[str]]
    """From start URLs and a fresh folder."""
    count_pages: Callable[[str, Path], int]
    """From its stdout and its folder."""
    keeps: tuple[str, str, str, str, str]
    """Rows, pages, queue and seen-set, what is durable, what continues after a kill."""
    exit_codes: tuple[int, ...] = (0,)
    program: str = sys.executable
    """What must be installed."""


KEEPS = ("rows", "pages", "queue and seen-set", "synced to disk", "after a kill")


def console() -> list[str]:
    """The command of the installed crawl-console, or `$CRAWL`."""
    if "CRAWL" in os.environ:
        return shlex.split(os.environ["CRAWL"])
    installed = Path(sys.executable).with_name("crawl-console")
    program = str(installed) if installed.exists() else shutil.which("crawl-console")
    if program is None:
        raise RuntimeError("crawl-console is not installed beside this Python: pip install -e .[bench]")
    return [program]


def write_defs(starts: Sequence[str], folder: Path) -> Path:
    """Write our defs into a fresh folder; return their directory."""
    defs = folder / "defs"
    defs.mkdir()
    (defs / "docs.yml").write_text(_DEFS.format(starts=json.dumps(list(starts))))
    return defs


def run_command(defs: Path, data: Path) -> list[str]:
    """`crawl-console run`, with the default settings for nodes."""
    settings = ("robots=false", "delay=0", f"host_concurrency={CONCURRENCY}")
    return [
        *(*console(), "run", "--no-ui", "--json", "--progress", "quiet", "--defs", str(defs), "--data", str(data)),
        *(part for setting in settings for part in ("--set", setting)),
    ]


def _ours(starts: Sequence[str], folder: Path) -> list[str]:
    return run_command(write_defs(starts, folder), folder / "data")


def _our_pages(stdout: str, folder: Path) -> int:
    summary = json.loads(stdout.strip().splitlines()[-1])
    rows = _csv_pages(folder / "data" / "output" / "latest" / "page.csv")
    if summary["rows"].get("page") != rows:
        raise RuntimeError(f"the summary says {summary['rows']}, the file has {rows} rows")
    return rows


def _scrapy(module: str, **settings: str) -> Callable[[Sequence[str], Path], list[str]]:
    def command(starts: Sequence[str], folder: Path) -> list[str]:
        flags = [part for name, value in settings.items() for part in ("-s", f"{name}={value.format(folder=folder)}")]
        return [
            *(sys.executable, "-m", "scrapy", "runspider", str(FOLDER / f"{module}.py"), *flags),
            *("-a", f"starts={' '.join(starts)}", "-O", str(folder / "pages.csv")),
        ]

    return command


def _scrapy_tuned(starts: Sequence[str], folder: Path) -> list[str]:
    """The reactor starts before the spider's settings; the spider itself writes the rows."""
    reactor = "twisted.internet.epollreactor.EPollReactor" if sys.platform == "linux" else ""
    command = _scrapy("scrapy_tuned", TWISTED_REACTOR=reactor)(starts, folder)
    return [*command[:-2], "-a", f"rows={folder / 'pages.csv'}"]


def _scrapy_pages(stdout: str, folder: Path) -> int:
    return _csv_pages(folder / "pages.csv")


def _csv_pages(path: Path) -> int:
    with path.open(newline="", encoding="utf-8") as file:
        urls = [row["url"] for row in csv.DictReader(file, strict=True)]
    if len(urls) != len(set(urls)):
        print(f"{path.name}: {len(urls) - len(set(urls))} duplicate pages", file=sys.stderr)
    return len(set(urls))


def _wget2(starts: Sequence[str], folder: Path) -> list[str]:
    (folder / "starts.txt").write_text("\n".join(starts))
    return [
        *("wget2", "--recursive", "--level=0", "--no-robots", "--quiet", r"--accept-regex=\.html?$"),
        *(f"--max-threads={_WGET2_THREADS}", f"--input-file={folder / 'starts.txt'}"),
        *("--force-directories", f"--directory-prefix={folder / 'pages'}"),
    ]


def _wget2_pages(stdout: str, folder: Path) -> int:
    return sum(1 for file in (folder / "pages").rglob("*.htm*") if file.is_file())


OURS = Crawler(
    "crawl-console",
    _ours,
    _our_pages,
    ("in the database and a CSV file", "compressed, in pages.db", "in the database", "each commit", "each row once"),
)
SCRAPY_LEAN = Crawler(
    "scrapy, lean",
    _scrapy("scrapy_lean", ASYNCIO_EVENT_LOOP="uvloop.Loop"),  # the reactor starts before the spider's settings
    _scrapy_pages,
    ("in a CSV file", "no", "in memory", "nothing", "from the start"),
)
SCRAPY_TUNED = Crawler(
    "scrapy, tuned",
    _scrapy_tuned,
    _scrapy_pages,
    ("in a CSV file", "no", "in memory", "nothing", "from the start"),
)
SCRAPY = Crawler(
    "scrapy, usual",
    _scrapy("scrapy_plain", JOBDIR="{folder}/job"),
    _scrapy_pages,
    ("in a CSV file", "no", "in memory and in files of JOBDIR", "nothing", "pages may be lost or doubled"),
)
WGET2 = Crawler(
    "wget2",
    _wget2,
    _wget2_pages,
    ("no extraction", "as files", "in memory", "nothing", "from the start"),
    exit_codes=(0, 8),  # 8: the site has dead links
    program="wget2",
)
