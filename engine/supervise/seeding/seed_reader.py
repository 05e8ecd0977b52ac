"""Reads the seeds of locators: their URLs, patterns, and lists in files or on standard input."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice, repeat

from engine import urls
from engine.defs.builders.bodies import expand_body
from engine.defs.builders.series_patterns import expand_series, split_url
from engine.defs.url_list import read_urls, shown_path
from engine.defs.url_patterns import expand
from engine.errors import UsageError
from engine.model.definition import Locator
from engine.model.job import JobKind
from engine.model.locator import Series
from engine.model.variables import UnusableVariable, render_authority, require_secrets
from engine.supervise.seeding.seed_jobs import Seed

_BATCH_SIZE = 2000


class SeedReader:
    """The seeds of one def version. `problems`: seeds without a job, each with its place."""

    def __init__(self, base: str | None, unread_stdin: Iterator[tuple[int, str]] | None = None) -> None:
        """`base`: of relative URLs. `unread_stdin`: the rest of standard input that the last version left."""
        self._base = base
        self._stdin = unread_stdin
        self.problems: list[str] = []

    @property
    def stdin(self) -> Iterator[tuple[int, str]]:
        """The unread lines of standard input; shared by successive versions."""
        if self._stdin is None:
            self._stdin = read_urls("-")
        return self._stdin

    def list_seeds(self, locator: Locator) -> list[tuple[JobKind, Iterator[Seed]]]:
        """The seeds of a locator by the kind of their jobs."""
        if locator.until_empty:
            return [(JobKind.PAGE, self._series(locator))]
        sitemaps = [locator.sitemap] if locator.sitemap else []
        return [
            (JobKind.PAGE, _with_bodies(locator, self._locator_urls(locator))),
            (
                JobKind.SITEMAP,
                _with_bodies(locator, self._resolve(zip(repeat(""), sitemaps), str(locator.place))),
            ),
        ]

    def _series(self, locator: Locator) -> Iterator[Seed]:
        """The first pages of the series of a locator."""
        place = str(locator.place)
        for pattern in locator.urls:
            for own in expand_series(pattern, locator.body, locator.body_pieces, locator.content_type):
                number = str(own.range.first).zfill(own.range.width)
                for seed in self._resolve([("", number.join(own.url))], place):
                    url = split_url(own.url, self._resolve_url)
                    if url is None:
                        self.problems.append(
                            f"{place}: the number of its range is not sent: {urls.without_credentials(pattern)[:200]}"
                        )
                        continue
                    first, last, width = own.range
                    series = Series(url=url, body=own.body, first=first, last=last, width=width)
                    yield seed._replace(body=number.join(own.body) if own.body else None, series=series)

    def _resolve_url(self, written: str) -> str | None:
        seed = read_seed(written, self._base)
        return None if seed is None else seed.url

    def _locator_urls(self, locator: Locator) -> Iterator[Seed]:
        for pattern in locator.urls:
            yield from self._resolve(zip(repeat(""), expand(pattern)), str(locator.place))
        if locator.from_file == "-":
            yield from self._resolve(self.stdin, "standard input:")
        elif locator.from_file is not None:
            yield from self._resolve(read_urls(locator.from_file), f"{shown_path(locator.from_file)}:")

    def _resolve(self, written: Iterable[tuple[object, str]], place: str) -> Iterator[Seed]:
        """The seeds of URLs as written, each after its line, if any; the others become problems."""
        for line, url in written:
            try:
                seed = read_seed(url, self._base)
            except UnusableVariable as error:
                self.problems.append(f"{place}{line}: {error}")
                continue
            if seed is None:
                self.problems.append(f"{place}{line}: {urls.describe_unusable(url, self._base)}")
            else:
                yield seed


def read_seed(written: str, base: str | None) -> Seed | None:
    """The seed of a URL as written, with the variables of its host resolved. None: it is not a URL.

    `base`: of relative URLs. Raises UnusableVariable.
    """
    bare, userinfo = urls.split_userinfo(written)
    if "%{" in written:
        require_secrets(written, os.environ)
        bare = render_authority(bare, os.environ)
    full = urls.resolve(bare, base)
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


def _with_bodies(locator: Locator, seeds: Iterator[Seed]) -> Iterator[Seed]:
    """The seeds with each body of their locator; the body varies faster than the URL."""
    if locator.body is None:
        return seeds
    if not locator.body_pieces:
        return (seed._replace(body=locator.body) for seed in seeds)
    return (
        seed._replace(body=body) for seed in seeds for body in expand_body(locator.body_pieces, locator.content_type)
    )


def take_batch(seeds: Iterator[Seed]) -> list[Seed]:
    return list(islice(seeds, _BATCH_SIZE))
