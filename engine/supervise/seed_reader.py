"""Reads the seeds of locators: their URLs, patterns, and lists in files or on standard input."""

import time
from collections.abc import Iterable, Iterator

from engine import urls
from engine.defs.url_list import read_urls, shown_path
from engine.defs.url_patterns import expand
from engine.model.definition import Locator
from engine.model.job import JobKind
from engine.supervise.seed_secrets import Seed, SeedSecrets

_BATCH_SIZE = 2000
_BATCH_SECONDS = 0.1


class SeedReader:
    """The seeds of one def version. `problems`: those that give no job, each with its place."""

    def __init__(
        self, base: str | None, secrets: SeedSecrets, unread_stdin: Iterator[tuple[int, str]] | None = None
    ) -> None:
        """`base`: of relative URLs. `unread_stdin`: what the version before left of standard input."""
        self._base = base
        self._secrets = secrets
        self._stdin = unread_stdin
        self.problems: list[str] = []

    @property
    def stdin(self) -> Iterator[tuple[int, str]]:
        """The lines of standard input that are not read yet; shared by successive versions."""
        if self._stdin is None:
            self._stdin = read_urls("-")
        return self._stdin

    def list_seeds(self, locator: Locator) -> list[tuple[JobKind, Iterator[Seed]]]:
        """The seeds of a locator by the kind of their jobs."""
        return [
            (JobKind.PAGE, self._locator_urls(locator)),
            (JobKind.SITEMAP, self._resolve_all(locator, [locator.sitemap] if locator.sitemap else [])),
        ]

    def _locator_urls(self, locator: Locator) -> Iterator[Seed]:
        for pattern in locator.urls:
            yield from self._resolve_all(locator, expand(pattern))
        if locator.from_file is not None:
            from_stdin = locator.from_file == "-"
            for number, url in self.stdin if from_stdin else read_urls(locator.from_file):
                seed = self._resolve(url)
                if seed is None:
                    place = "standard input" if from_stdin else shown_path(locator.from_file)
                    self._report(f"{place}:{number}", url)
                else:
                    yield seed

    def _resolve_all(self, locator: Locator, written: Iterable[str]) -> Iterator[Seed]:
        for url in written:
            seed = self._resolve(url)
            if seed is None:
                self._report(str(locator.place), url)
            else:
                yield seed

    def _resolve(self, url: str) -> Seed | None:
        full = urls.join(self._base, url) if self._base else urls.normalize(url)
        return None if full is None else self._secrets.split(full)

    def _report(self, place: str, url: str) -> None:
        self.problems.append(f"{place}: no usable URL: {urls.without_credentials(url)[:200]}")


def take_batch(seeds: Iterator[Seed]) -> list[Seed]:
    """The next batch: smaller where each URL has a password of its own, since sealing one takes 10 ms."""
    deadline = time.monotonic() + _BATCH_SECONDS
    batch: list[Seed] = []
    for seed in seeds:
        batch.append(seed)
        if len(batch) >= _BATCH_SIZE or (seed.userinfo and time.monotonic() > deadline):
            break
    return batch
