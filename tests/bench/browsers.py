"""Compares pages that scripts write, by `loader: browser` and by Scrapy with scrapy-playwright, in turns.

Both have the same Chromium load as many pages at once, and must give the rows that the site has. A second site has one
page in ten by a script: crawl-console renders all of its pages, or with `when` only those that need it. Pages/s are
those of whole crawls, start and end included. Needs the extras `browser` and `bench`, and Chromium on PATH.
"""

import argparse
import csv
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from msgspec import Struct

from crawl_engine.browser.find import find_browser
from crawl_engine.settings import Settings
from tests.bench.crawlers import FOLDER, PROJECT, console
from tests.bench.measure import Measured, measure, parts_table
from tests.bench.pages import items
from tests.bench.report import machine, machine_line, put, table
from tests.bench.site import Site, scripted_site

_DEFS = """\
locatorGroups: {{shelves: {{locators: [{{url: "{origin}/s/{{0..{last}}}"}}]}}}}
taskGroups:
  shelves:
    loader: {loader}
    items: {{dataDef: item}}
dataDefs:
  item:
    query: {{block: .item}}
    fields: {{url: {{value: "%{{document.url}}"}}, name: {{selector: b}}, price: {{selector: i}}}}
"""
ALL = "{browser: {wait: .item}}"
WHEN = "{browser: {wait: .item, when: {missing: .item}}}"
SPARSE = 10
"""Of so many pages of the second site one needs a browser."""


class Contest(Struct, frozen=True, kw_only=True):
    """The same job for all: so many pages, so many at once."""

    pages: int
    at_once: int
    chromium: str

    def ours(self, loader: str) -> Callable[[Site, Path], tuple[list[str], Path]]:
        """The command and its file of rows."""

        def command(site: Site, folder: Path) -> tuple[list[str], Path]:
            (folder / "defs").mkdir()
            text = _DEFS.format(origin=site.origins[0], last=self.pages - 1, loader=loader)
            (folder / "defs" / "shelves.yml").write_text(text)
            settings = (
                "robots=false", "delay=0", "nodes=1", f"host_concurrency={self.at_once}", "browsers=1",
                f"browser_pages={self.at_once}", f"browser={self.chromium}", f"browser_sandbox={_sandbox().lower()}",
            )  # fmt: skip
            run = [*console(), "run", "--no-ui", "--progress", "quiet", "--defs", str(folder / "defs")]
            run += ["--data", str(folder / "data"), *(part for one in settings for part in ("--set", one))]
            return run, folder / "data/output/latest/item.csv"

        return command

    def scrapy(self, site: Site, folder: Path) -> tuple[list[str], Path]:
        """The command and its file of rows."""
        options = {"executable_path": self.chromium, "chromium_sandbox": _sandbox() == "True"}
        settings = {
            "DOWNLOAD_HANDLERS": json.dumps(
                dict.fromkeys(("http", "https"), "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler")
            ),
            "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
            "PLAYWRIGHT_LAUNCH_OPTIONS": json.dumps(options),
            "PLAYWRIGHT_MAX_PAGES_PER_CONTEXT": str(self.at_once),
            "CONCURRENT_REQUESTS": str(self.at_once),
            "CONCURRENT_REQUESTS_PER_DOMAIN": str(self.at_once),
            "DOWNLOAD_DELAY": "0",
            "ROBOTSTXT_OBEY": "False",
            "LOG_LEVEL": "WARNING",
        }
        flags = [part for name, value in settings.items() for part in ("-s", f"{name}={value}")]
        flags += ["-a", f"origin={site.origins[0]}", "-a", f"pages={self.pages}", "-O", str(folder / "items.csv")]
        run = [sys.executable, "-m", "scrapy", "runspider", str(FOLDER / "scrapy_browser.py"), *flags]
        return run, folder / "items.csv"

    def crawl(self, name: str, command: Callable[[Site, Path], tuple[list[str], Path]], site: Site) -> Measured:
        """One crawl. Raises RuntimeError where its rows are not those of the site."""
        print(f"… {name} on {site.name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="bench-") as made:
            folder = Path(made)
            run, rows = command(site, folder)
            environment = {**os.environ, "PYTHONPATH": str(PROJECT), "XDG_STATE_HOME": str(folder / "state")}
            usage = measure(run, cwd=folder, env=environment)
            if usage.exit_code:
                raise RuntimeError(f"{name}: exit {usage.exit_code}\n{usage.stdout[-1000:]}\n{usage.stderr[-3000:]}")
            with rows.open(newline="", encoding="utf-8") as file:
                found = sorted((row["url"], row["name"], row["price"]) for row in csv.DictReader(file, strict=True))
            wanted = sorted(
                (f"{site.origins[0]}/s/{number}", item["name"], item["price"])
                for number in range(self.pages)
                for item in items(number)
            )
            if found != wanted:
                raise RuntimeError(f"{name}: {len(found)} rows, wanted {len(wanted)}, or others")
            return usage


def _sandbox() -> str:
    """Chromium refuses its sandbox to root."""
    return str(os.geteuid() != 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.browsers", description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000)
    parser.add_argument("--at-once", type=int, default=4, help="pages of a browser at once")
    parser.add_argument("--browser", metavar="PROGRAM", help="default: that of crawl-console")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("scrapy", "when"), help="one comparison")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append results as JSON lines")
    options = parser.parse_args()
    chromium = find_browser(Settings(browser=options.browser))
    contest = Contest(pages=options.pages, at_once=options.at_once, chromium=chromium)
    print(f"{machine_line()}\n{chromium}, load {os.getloadavg()[0]:.2f}")
    comparisons = {
        "scrapy": (1, {"crawl-console": contest.ours(ALL), "scrapy-playwright": contest.scrapy}),
        "when": (SPARSE, {"when: missing": contest.ours(WHEN), "all rendered": contest.ours(ALL)}),
    }
    for name, (every, crawlers) in comparisons.items():
        if options.only in (None, name):
            with scripted_site(every) as site:
                _compare(contest, site, crawlers, options.rounds, options.json)
    return 0


def _compare(
    contest: Contest,
    site: Site,
    crawlers: dict[str, Callable[[Site, Path], tuple[list[str], Path]]],
    rounds: int,
    file: Path | None,
) -> None:
    done: dict[str, list[Measured]] = {name: [] for name in crawlers}
    for number in range(rounds):
        for name in [*crawlers] if number % 2 == 0 else reversed(crawlers):
            usage = contest.crawl(name, crawlers[name], site)
            done[name].append(usage)
            put(file, {
                "bench": "browsers", "crawler": name, "site": site.name, "pages": contest.pages,
                "seconds": usage.wall, "cpu_seconds": usage.cpu, "peak_bytes": usage.peak, "others": usage.others,
                **machine(),
            })  # fmt: skip
    rows = [
        [
            name, len(all_), median(contest.pages / one.wall for one in all_),
            median(one.cpu / contest.pages * 1000 for one in all_), median(one.peak for one in all_) / 1e6,
            median(one.others / one.wall for one in all_),
        ]
        for name, all_ in done.items()
    ]  # fmt: skip
    print(f"\n{site.name}, {contest.pages:,} pages, {contest.at_once} at once")
    print(table(["crawler", "rounds", "pages/s", "CPU ms/page", "peak MB", "other cores"], rows))
    first, second = (done[name] for name in crawlers)
    ratios = [theirs.wall / ours.wall for ours, theirs in zip(first, second, strict=True)]
    print(
        f"pages/s, {' ÷ '.join(crawlers)}: {', '.join(f'{ratio:.2f}' for ratio in ratios)}; median {median(ratios):.2f}"
    )
    print(f"CPU: {median(a.cpu / b.cpu for a, b in zip(first, second, strict=True)):.2f}")
    print(parts_table(first[-1]))


if __name__ == "__main__":
    sys.exit(main())
