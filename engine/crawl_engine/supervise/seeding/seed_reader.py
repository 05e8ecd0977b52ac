"""Reads the seeds of locators: their URLs, patterns, and lists in files or on standard input."""

import os
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import NamedTuple

from crawl_engine import urls
from crawl_engine.defs.builders.bodies import expand_body
from crawl_engine.defs.builders.series_patterns import expand_series, split_url
from crawl_engine.defs.seed_table import SeedTable
from crawl_engine.defs.url_list import ListPosition, UrlList, read_stdin, shown_path
from crawl_engine.defs.url_patterns import expand
from crawl_engine.errors import UsageError
from crawl_engine.model.job import JobKind
from crawl_engine.model.locator import Locator, SeedColumns, Series
from crawl_engine.model.run import SeedingProgress
from crawl_engine.model.variables import UnusableVariable, render_authority, require_secrets
from crawl_engine.supervise.seeding.seed_jobs import Seed, encode_request
from crawl_engine.supervise.seeding.seed_template import SeedTemplate, UnusableLine

MAX_REPORTED = 10
"""Texts about seeds of a locator without a job; the others are counted."""
LIST_CACHE_KB = 48_000
"""The page cache while a list is seeded: a batch changes so many pages of the indexes."""
_MAX_BAD = 2_000
"""Lines without a job in a row, after which a batch ends."""

_Line = tuple[object, str]
_Seeds = Iterator[Seed | None]
"""None: no more seeds can be read now."""


class SeedReader:
    """The seeds of one def version."""

    def __init__(self, base: str | None, unread_stdin: "Iterator[tuple[int, str] | None] | None" = None) -> None:
        """`base`: of relative URLs. `unread_stdin`: the rest of standard input that the last version left."""
        self._base = base
        self._stdin = unread_stdin
        self.list: UrlList | None = None
        """The file that is read now."""
        self.problems: list[str] = []
        """The first seeds without a job that were read since the last `begin`, each with its place."""
        self.unusable = 0
        """The number of all of them."""
        self.has_routes = False
        """Whether the URLs of the locators that are read have routes."""

    @property
    def stdin(self) -> "Iterator[tuple[int, str] | None]":
        """The unread lines of standard input; shared by successive versions."""
        if self._stdin is None:
            self._stdin = read_stdin(wait=0)
        return self._stdin

    def begin(self, unusable: int = 0, *, has_routes: bool = False) -> None:
        """Read another locator. `unusable`: its problems that were counted before."""
        self.problems, self.unusable, self.list, self.has_routes = [], unusable, None, has_routes

    def list_seeds(self, locator: Locator, done: SeedingProgress | None = None) -> list[tuple[JobKind, _Seeds]]:
        """The seeds of a locator by the kind of their jobs. `done`: how far its list was read before."""
        if locator.until_empty:
            return [(JobKind.PAGE, self._series(locator))]
        sitemaps = [locator.sitemap] if locator.sitemap else []
        return [
            (JobKind.PAGE, self._located_seeds(locator, done)),
            (
                JobKind.SITEMAP,
                _with_bodies(locator, self._resolve(zip(repeat(""), sitemaps), str(locator.place))),
            ),
        ]

    def list_listed(self, locator: Locator) -> _Seeds:
        """The seeds of the file of a locator alone."""
        if locator.seed_columns is None:
            return self._list_seeds(locator, None)
        return self._table_seeds(locator, locator.seed_columns, None)

    def _series(self, locator: Locator) -> _Seeds:
        """The first pages of the series of a locator."""
        place = str(locator.place)
        for pattern in locator.urls:
            for own in expand_series(pattern, locator.body, locator.body_pieces, locator.content_type):
                number = str(own.range.first).zfill(own.range.width)
                for seed in self._resolve([("", number.join(own.url))], place):
                    if seed is None:
                        continue
                    url = split_url(own.url, self._resolve_url)
                    if url is None:
                        self._add_problem(
                            f"{place}: the number of its range is not sent: {urls.without_credentials(pattern)[:200]}"
                        )
                        continue
                    series = Series(url=url, body=own.body, **own.range._asdict())
                    yield seed._replace(body=number.join(own.body) if own.body else None, series=series)

    def _resolve_url(self, written: str) -> str | None:
        seed = read_seed(written, self._base, keeps_route=self.has_routes)
        return None if seed is None else seed.url

    def _located_seeds(self, locator: Locator, done: SeedingProgress | None) -> _Seeds:
        """The seeds of pages."""
        if locator.seed_columns is not None:
            return self._table_seeds(locator, locator.seed_columns, done)
        written = self._pattern_seeds(locator) if done is None else iter(())
        return _with_bodies(locator, chain(written, self._list_seeds(locator, done)))

    def _pattern_seeds(self, locator: Locator) -> _Seeds:
        for pattern in locator.urls:
            yield from self._resolve(zip(repeat(""), expand(pattern)), str(locator.place))

    def _list_seeds(self, locator: Locator, done: SeedingProgress | None) -> _Seeds:
        """The seeds of a list with one URL per line."""
        if locator.from_file == "-":
            yield from self._resolve(self.stdin, "standard input:")
        elif locator.from_file is not None:
            self.list = UrlList(locator.from_file)
            lines = self.list.read_from(*_reached(done))
            yield from self._resolve(lines, f"{shown_path(locator.from_file)}:")

    def _table_seeds(self, locator: Locator, columns: SeedColumns, done: SeedingProgress | None) -> _Seeds:
        """The seeds of a CSV file: of each line, all URLs with all bodies."""
        self.list = table = SeedTable(str(locator.from_file), columns)
        template, bad = SeedTemplate(locator, columns), 0
        place = f"{shown_path(table.path)}:"
        for number, values in table.read_rows(*_reached(done)):
            try:
                if isinstance(values, str):
                    raise UnusableLine(values)
                line = template.fill(values)
            except UnusableLine as error:
                self._add_problem(f"{place}{number}: {error}")
                bad += 1
                if bad % _MAX_BAD == 0:
                    yield None
                continue
            for seed in self._resolve([(number, url) for url in line.urls], place):
                for body in line.bodies if seed is not None else ():
                    assert seed is not None
                    request = None if line.locator is None else encode_request(line.locator, seed.userinfo, body)
                    yield seed._replace(body=body, carried=line.carried, request=request)

    def _resolve(self, written: Iterable[_Line | None], place: str) -> _Seeds:
        """The seeds of URLs as written, each after its line, if any; the others become problems."""
        base, bad_in_row = self._base, 0
        for entry in written:
            if entry is None:
                yield None
                continue
            line, url = entry
            try:
                seed = read_seed(url, base, keeps_route=self.has_routes)
                problem = "" if seed is not None else urls.describe_unusable(url, base)
            except UnusableVariable as error:
                seed, problem = None, str(error)
            if seed is not None:
                bad_in_row = 0
                yield seed
                continue
            self._add_problem(f"{place}{line}: {problem}")
            bad_in_row += 1
            if bad_in_row % _MAX_BAD == 0:
                yield None

    def _add_problem(self, text: str) -> None:
        if self.unusable < MAX_REPORTED:
            self.problems.append(text)
        self.unusable += 1


def _reached(done: SeedingProgress | None) -> tuple[ListPosition, str]:
    """Where a list is read on, and the stamp of its file."""
    return (ListPosition(), "") if done is None else (ListPosition(done.offset, done.line), done.stamp)


def read_seed(written: str, base: str | None, *, keeps_route: bool = False) -> Seed | None:
    """The seed of a URL as written, with the variables of its host resolved. None: it is not a URL.

    `base`: of relative URLs. `keeps_route`: as of `urls.normalize`. Raises UnusableVariable.
    """
    if urls.is_normal(written):
        return Seed(written, "")
    bare, userinfo = urls.split_userinfo(written)
    if "%{" in written:
        require_secrets(written, os.environ)
        bare = render_authority(bare, os.environ)
    full = urls.resolve(bare, base, keeps_route=keeps_route)
    if full is None:
        return None
    if "@" in full and urls.userinfo_of(full):  # the base contains them
        userinfo, full = userinfo or urls.userinfo_of(full), urls.without_credentials(full)
    return Seed(full, userinfo)


def check_base_url(base_url: str | None) -> None:
    """Raise UsageError if the base URL of the settings is not a URL, or has a variable that cannot be read."""
    if base_url is not None and not urls.is_absolute(base_url):
        raise UsageError(
            f"--base-url {urls.without_credentials(base_url)}: not an http or https URL",
            "Write for example https://shop.example",
        )
    try:
        require_secrets(base_url or "", os.environ)
    except UnusableVariable as error:
        raise UsageError(f"base_url: {error}", "Set it in the environment of the crawl, or mend the file.") from error


def _with_bodies(locator: Locator, seeds: _Seeds) -> _Seeds:
    """The seeds with each body of their locator; the body varies faster than the URL."""
    if locator.body is None:
        return seeds
    if not locator.body_pieces:
        return (seed and seed._replace(body=locator.body) for seed in seeds)
    return (
        seed and seed._replace(body=body)
        for seed in seeds
        for body in (expand_body(locator.body_pieces, locator.content_type) if seed else (None,))
    )


class Batch(NamedTuple):
    """Seeds that become jobs in one transaction. `is_last`: no others follow."""

    seeds: list[Seed]
    is_last: bool


def take_batch(seeds: _Seeds, size: int) -> Batch:
    """The next `size` seeds; empty, and not the last, if none can be read now."""
    batch = list[Seed]()
    for seed in seeds:
        if seed is None:
            return Batch(batch, is_last=False)
        batch.append(seed)
        if len(batch) == size:
            return Batch(batch, is_last=False)
    return Batch(batch, is_last=True)
