"""Compares each recipe of docs/recipes.md with a Scrapy spider that does the same job, on the same site.

Both must give the rows that the site has. Both are told the same on the command line, Scrapy with the settings of
tests/bench/scrapy_plain.py: no lines of settings count. crawl-console runs one node, as Scrapy is one process. CPU is
that of all processes, start and end included; the runs of the price watch are added up.
"""

import argparse
import csv
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.crawlers import CONCURRENCY, console
from tests.bench.measure import measure
from tests.bench.report import machine, machine_line, put, table
from tests.bench.scrapy_plain import DocsSpider
from tests.process.site import Site, serve_site
from tests.recipes.line_counts import count_python_lines, count_yaml_lines
from tests.recipes.recipes import PRICE_WATCH, RECIPES, SPIDERS, Recipe, Rows, counted
from tests.recipes.shop import Shop

_FLAGS = ["--nodes", "1", "--set", "robots=false", "--set", f"host_concurrency={CONCURRENCY}"]
_LIMIT = 0.5
"""The most that defs may have of a spider's lines, and a run of its CPU."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Lines and CPU seconds of a recipe and of its spider."""

    recipe: str
    requests: int
    rows: int
    defs_lines: int
    spider_lines: int
    defs_cpu: float
    spider_cpu: float

    @property
    def lines_ratio(self) -> float:
        return self.defs_lines / self.spider_lines

    @property
    def cpu_ratio(self) -> float:
        return self.defs_cpu / self.spider_cpu

    @property
    def within_limits(self) -> bool:
        return self.lines_ratio <= _LIMIT and self.cpu_ratio <= _LIMIT


class _Contest:
    """Runs a recipe and its spider on a shop, each in a folder that their later runs share."""

    def __init__(self, recipe: Recipe, shop: Shop, folder: Path) -> None:
        self._recipe, self._shop = recipe, shop
        self._defs, self._spider = folder / "defs", folder / "spider"
        self._defs.mkdir()
        self._spider.mkdir()
        (self._defs / "recipe.yml").write_text(recipe.defs(shop.origin), "utf-8")
        (self._spider / "spider.py").write_text(recipe.spider(shop.origin), "utf-8")
        self._variables, self._arguments = recipe.command
        self._environment = {**os.environ, **self._variables, "XDG_STATE_HOME": str(folder)}

    def run_defs(self) -> float:
        """The CPU seconds of a run."""
        folder = self._defs.parent
        cpu = self._measure([*console(), *self._arguments, *_FLAGS], folder)
        with (folder / "data/output/latest" / f"{self._recipe.data_def}.csv").open(
            newline="", encoding="utf-8"
        ) as file:
            self._compare("crawl-console", counted(csv.DictReader(file, strict=True)))
        return cpu

    def run_spider(self) -> float:
        """The CPU seconds of a run."""
        flags = [
            part for name, value in (DocsSpider.custom_settings or {}).items() for part in ("-s", f"{name}={value}")
        ]
        command = [sys.executable, "-m", "scrapy", "runspider", "spider.py", *flags, "-O", "rows.jsonl"]
        cpu = self._measure(command, self._spider)
        with (self._spider / "rows.jsonl").open(encoding="utf-8") as lines:
            self._compare("scrapy", counted(json.loads(line, parse_float=str) for line in lines))
        return cpu

    def _measure(self, command: list[str], folder: Path) -> float:
        usage = measure(command, cwd=folder, env=self._environment, timeout=600)
        if usage.exit_code or "Traceback" in usage.stderr:
            raise RuntimeError(f"{self._recipe.name}: exit {usage.exit_code}\n{usage.stderr[-3000:]}")
        return usage.cpu

    def _compare(self, crawler: str, rows: Rows) -> None:
        expected = self._recipe.rows(self._shop)
        if rows != expected:
            missing, unexpected = expected - rows, rows - expected
            raise RuntimeError(
                f"{self._recipe.name}: {crawler} gave {rows.total()} rows of {expected.total()};"
                f" missing {list(missing)[:2]}, unexpected {list(unexpected)[:2]}"
            )


def compare(recipe: Recipe, site: Site, size: int) -> Comparison:
    """Run both on the site. Raises RuntimeError if one of them fails or gives other rows than the site has."""
    shop = Shop(site, size)
    site.clear_log()
    defs_cpu = spider_cpu = 0.0
    requests = 0
    with tempfile.TemporaryDirectory(prefix="crawl-console-bench-") as folder:
        contest = _Contest(recipe, shop, Path(folder))
        for raised in (False, True) if recipe.name == PRICE_WATCH else (False,):
            shop.raised = raised
            before = len(site.paths)
            defs_cpu += contest.run_defs()
            requests += len(site.paths) - before
            spider_cpu += contest.run_spider()
    shop.raised = False
    return Comparison(
        recipe=recipe.name,
        requests=requests,
        rows=recipe.rows(shop).total(),
        defs_lines=count_yaml_lines(recipe.block("yaml")),
        spider_lines=count_python_lines((SPIDERS / f"{recipe.name}.py").read_text("utf-8")),
        defs_cpu=defs_cpu,
        spider_cpu=spider_cpu,
    )


def comparisons_table(comparisons: list[Comparison]) -> str:
    """One line for each recipe."""
    return table(
        [
            *("recipe", "pages", "rows", "lines: defs", "spider", "ratio"),
            *("CPU s: crawl-console", "scrapy", "ratio", "both ≤ 0.5"),
        ],
        [
            [
                c.recipe, c.requests, c.rows, c.defs_lines, c.spider_lines, c.lines_ratio, c.defs_cpu, c.spider_cpu,
                c.cpu_ratio, c.within_limits,
            ]
            for c in comparisons
        ],
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.recipes", description=__doc__)
    names = [recipe.name for recipe in RECIPES]
    parser.add_argument("--only", default=",".join(names), metavar="RECIPE,…", help=f"of {', '.join(names)}")
    parser.add_argument("--pages", type=int, default=1_000, help="of each recipe")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append results as JSON lines")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(names):
        parser.error(f"unknown recipe: {', '.join(sorted(unknown))}; choose from {', '.join(names)}")
    print(machine_line())
    comparisons, failures = [], 0
    for recipe in RECIPES:
        if recipe.name not in chosen:
            continue
        print(f"… {recipe.name}", file=sys.stderr, flush=True)
        try:
            with serve_site() as site:
                comparison = compare(recipe, site, options.pages)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            failures += 1
            continue
        comparisons.append(comparison)
        put(options.json, {"bench": "recipe", **_as_dict(comparison), **machine()})
    print(comparisons_table(comparisons))
    return 1 if failures else 0


def _as_dict(comparison: Comparison) -> dict[str, Any]:
    return {name: getattr(comparison, name) for name in Comparison.__slots__}


if __name__ == "__main__":
    sys.exit(main())
