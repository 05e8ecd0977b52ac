"""Compares whole crawls of crawl-console, Scrapy and wget2, in turns, on small and large sites of 1 to 1,000 hosts."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.crawlers import KEEPS, OURS, PROJECT, SCRAPY, SCRAPY_LEAN, SCRAPY_TUNED, WGET2, Crawler
from tests.bench.measure import Measured, measure, parts_table
from tests.bench.report import table
from tests.bench.site import DOCUMENTATION, MANUAL, NGINX, Site, folder_site, generated_site

SITES = ("small", "large", "100", "1000")
_CRAWLERS = (OURS, SCRAPY_TUNED, SCRAPY_LEAN, SCRAPY, WGET2)
_ONCE_SECONDS = 45.0
"""A crawler that takes longer for a site crawls it once."""
_QUIET = 0.1


@dataclass(frozen=True, slots=True)
class Crawl:
    """The result of one crawl."""

    crawler: str
    site: str
    pages: int
    usage: Measured
    server_cpu: float
    """Seconds, of the site's server."""

    @property
    def pages_per_s(self) -> float:
        return self.pages / self.usage.wall

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of CPU a page, over all processes of the crawler."""
        return self.usage.cpu / self.pages * 1000

    @property
    def others(self) -> float:
        """Cores kept busy by other processes: above 0.1, wall times mean little."""
        return max(0.0, self.usage.others - self.server_cpu) / self.usage.wall

    def as_dict(self) -> dict[str, Any]:
        """As one JSON object."""
        return {
            "bench": "peers", "crawler": self.crawler, "site": self.site, "pages": self.pages,
            "seconds": round(self.usage.wall, 3), "cpu_seconds": round(self.usage.cpu, 3),
            "cpu_ms_page": round(self.cpu_ms, 4), "cpu_by": self.usage.cpu_by, "peak_bytes": self.usage.peak,
            "server_cpu_seconds": round(self.server_cpu, 3), "other_cores": round(self.others, 3),
        }  # fmt: skip


def crawl(crawler: Crawler, site: Site, *flags: str) -> Crawl:
    """Run a crawler on the site, with more flags. Raises RuntimeError when it fails or gets no page."""
    print(f"… {crawler.name} on {site.name}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder, cpu = Path(name), site.cpu()
        environment = {**os.environ, "PYTHONPATH": str(PROJECT), "XDG_STATE_HOME": str(folder / "state")}
        usage = measure([*crawler.command(site.starts, folder), *flags], cwd=PROJECT, env=environment)
        pages = crawler.count_pages(usage.stdout, folder) if usage.exit_code in crawler.exit_codes else 0
        if not pages:
            output = f"{usage.stdout[-1000:]}\n{usage.stderr[-3000:]}"
            raise RuntimeError(f"{crawler.name}: exit {usage.exit_code}, {pages} pages\n{output}")
        return Crawl(crawler.name, site.name, pages, usage, site.cpu() - cpu)


def rounds(site: Site, count: int) -> Iterator[Crawl]:
    """Crawls of a site by all crawlers that are installed, in turns; each round starts with another one."""
    left = [crawler for crawler in _CRAWLERS if shutil.which(crawler.program)]
    for number in range(count):
        first = number % len(left)
        for crawler in [*left[first:], *left[:first]]:
            done = crawl(crawler, site)
            yield done
            if done.usage.wall > _ONCE_SECONDS:
                left.remove(crawler)


def site_of(name: str) -> AbstractContextManager[Site]:
    """One of `SITES`; documentation where the package and nginx are installed, else generated pages."""
    if name == "100":
        return generated_site(20, 8_000, hosts=100)
    if name == "1000":
        return generated_site(5, 8_000, hosts=1000)
    folder = MANUAL if name == "small" else DOCUMENTATION
    if folder.is_dir() and NGINX.exists():
        return folder_site(folder)
    return generated_site(1_200 if name == "small" else 10_000)


def missing() -> list[str]:
    """What is left out, and why."""
    return [f"{c.name} is left out: it is not installed" for c in _CRAWLERS if not shutil.which(c.program)]


def crawls_table(crawls: Sequence[Crawl]) -> str:
    """The medians of each crawler on each site, and its CPU compared with ours."""
    rows = []
    by_site = dict.fromkeys(crawl.site for crawl in crawls)
    for site in by_site:
        ours = median(c.cpu_ms for c in crawls if (c.site, c.crawler) == (site, OURS.name))
        for crawler in _CRAWLERS:
            own = [c for c in crawls if (c.site, c.crawler) == (site, crawler.name)]
            if own:
                cpu = median(c.cpu_ms for c in own)
                rows.append([
                    site, crawler.name, len(own), own[0].pages, median(c.usage.wall for c in own),
                    median(c.pages_per_s for c in own), cpu, cpu / ours, median(c.usage.peak for c in own) / 1e6,
                    median(c.others for c in own),
                ])  # fmt: skip
    heads = ["site", "crawler", "rounds", "pages", "s", "pages/s", "CPU ms/page", "÷ ours", "peak MB", "other cores"]
    return table(heads, rows)


def report(crawls: Sequence[Crawl]) -> str:
    """All tables, and what makes this run less trustworthy."""
    lines = [crawls_table(crawls)]
    lines.append(
        "medians; whole process trees, start and end included; CPU by"
        f" {crawls[0].usage.cpu_by}; peak: sum of PSS, sampled 4 times a second"
    )
    for site in dict.fromkeys(crawl.site for crawl in crawls):
        pages = {c.crawler: c.pages for c in crawls if c.site == site}
        if len(set(pages.values())) > 1:
            lines.append(f"{site}: crawlers got different numbers of pages: {pages}")
    if any(crawl.others > _QUIET for crawl in crawls):
        lines.append("other processes kept this machine busy: wall times and their ratios mean little in this run")
    lines += missing()
    last = next(crawl for crawl in reversed(crawls) if crawl.crawler == OURS.name)
    lines.append(f"\n{OURS.name} on {last.site}\n{parts_table(last.usage)}")
    lines.append("\nwhat each keeps\n" + table(["crawler", *KEEPS], [[c.name, *c.keeps] for c in _CRAWLERS]))
    return "\n".join(lines)
