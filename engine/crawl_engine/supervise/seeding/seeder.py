"""Turns locators into jobs, one batch per transaction, so that a crawl starts before seeding ends."""

import os
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.defs.loader import find_file_urls, find_relative_urls
from crawl_engine.defs.url_list import ListUnreadable, shown_path
from crawl_engine.errors import UsageError
from crawl_engine.http.errors import FILES_NOT_ALLOWED
from crawl_engine.model.definition import Definitions
from crawl_engine.model.fingerprint import list_routed_groups
from crawl_engine.model.job import JobKind
from crawl_engine.model.locator import Locator, LocatorGroup
from crawl_engine.model.run import RunState, SeedingProgress
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.tables.job import rings
from crawl_engine.store.tables.run import checkpoints, runs
from crawl_engine.store.tables.run.checkpoints import Checkpoint
from crawl_engine.supervise.checkpoints.step_graph import SEEDER, seeder_hash
from crawl_engine.supervise.run_context import RunContext
from crawl_engine.supervise.seeding.seed_jobs import Seed, SeedJobs, create_placements
from crawl_engine.supervise.seeding.seed_reader import (
    LIST_CACHE_KB,
    MAX_REPORTED,
    SeedReader,
    check_base_url,
    take_batch,
)

_SMALL_GROUP = 20
"""URLs of a group that is seeded together with others in one transaction, before pages can link to them."""
_MAX_TOGETHER = 50
"""Number of such groups in one transaction."""
_RETRY_SECONDS = 1.0
"""Seconds before an unreadable list is read again; doubled each time, up to a minute."""
_MAX_DOUBLINGS = 6

_T = TypeVar("_T")
_OpenGroup = tuple[LocatorGroup, str]
"""A group that is not seeded yet, and the content hash of its seeder."""
_Batch = tuple[LocatorGroup, Locator, list[Seed], JobKind]
"""Seeds of a locator."""


class Seeder:
    """Seeds the locators of one def version into a run, batch by batch. An interrupted batch is repeated."""

    def __init__(
        self, run: RunContext, definitions: Definitions, version: int, previous: "Seeder | None" = None
    ) -> None:  # fmt: skip
        """`previous`: the seeder of the version before; its unread part of stdin is kept."""
        self._run = run
        self._definitions = definitions
        self._routed = frozenset(list_routed_groups(definitions))
        self._version = version
        placements = create_placements(run.seq, definitions, run.settings)
        self._jobs = SeedJobs(run.db, run.seq, definitions, placements)
        base = run.row.base_url or definitions.base_url
        self.reader: SeedReader = SeedReader(base, previous.reader.stdin if previous is not None else None)
        self._batches = self._seed_all()
        self._empty_lists: list[str] = []
        """Lists of the current group without URLs."""
        self._told = 0
        """Problems of the reader that are recorded."""
        self.done = False

    def step(self) -> list[int]:
        """Write one batch; returns the sequences to ring. Sets `done` after the last.

        Raises UsageError if a list cannot be read, after all retries.
        """
        try:
            return next(self._batches)
        except StopIteration:
            self.done = True
            return []

    def _seed_all(self) -> Iterator[list[int]]:
        run = self._run.seq
        yield (yield from self._retry_busy(self._mark_seeding))
        groups = [(group, seeder_hash(group, self._run.row.base_url)) for group in self._definitions.locator_groups]
        complete = yield from self._retry_busy(
            lambda: {g.name for g, hash_ in groups if checkpoints.is_complete(self._run.db, run, SEEDER, g.name, hash_)}
        )
        open_groups = [(group, content_hash) for group, content_hash in groups if group.name not in complete]
        for together in self._combine_small(open_groups):
            if self._is_small(together[0][0]):
                batches = self._read_groups(together)  # once: a busy database repeats the writing alone
                yield (yield from self._retry_busy(partial(self._write_groups, together, batches)))
                continue
            ((group, content_hash),) = together
            yield from self._retry_busy(partial(self._write_checkpoint, group, content_hash, completed=False))
            yield from self._seed_group(group, content_hash)
            yield from self._retry_busy(partial(self._write_checkpoint, group, content_hash, completed=True))
        yield from self._retry_busy(self._mark_ready)

    def _retry_busy(self, work: Callable[[], _T]) -> Generator[list[int], None, _T]:
        """The result of `work`. Each busy database costs one step, since a generator that raises is finished."""
        while True:
            try:
                return work()
            except DatabaseBusy:
                yield []

    def _mark_seeding(self) -> list[int]:
        with self._run.db.transaction():
            runs.set_state(self._run.db, self._run.seq, RunState.SEEDING)
        return []

    def _mark_ready(self) -> list[int]:
        with self._run.db.transaction():
            runs.mark_seeded(self._run.db, self._run.seq, self._version)
            runs.set_seeding(self._run.db, self._run.seq, None)
            runs.set_state(self._run.db, self._run.seq, RunState.READY)
        return []

    def _seed_group(self, group: LocatorGroup, content_hash: str) -> Iterator[list[int]]:
        stored = yield from self._retry_busy(lambda: runs.get_seeding(self._run.db, self._run.seq))
        done = stored if stored and (stored.group, stored.content_hash) == (group.name, content_hash) else None
        self._empty_lists = [] if done is None else list(done.empty)
        for number, locator in enumerate(group.locators):
            if done is not None and number < done.locator:
                continue
            name = _list_name(locator)
            start = SeedingProgress(group=group.name, locator=number, content_hash=content_hash, list=name)
            if done is not None and done.is_of(start) and locator.from_file != "-":
                start = done
            count = yield from self._retry_reading(group, locator, start)
            if locator.from_file is not None and count == 0:
                self._empty_lists.append(start.list)

    def _retry_reading(
        self, group: LocatorGroup, locator: Locator, start: SeedingProgress
    ) -> Generator[list[int], None, int]:
        """Seed a locator, from where its list became unreadable; returns the number of its seeds.

        Keys keep earlier seeds from being seeded twice.
        """
        for attempt in range(self._run.settings.seed_retries):
            try:
                return (yield from self._seed_locator(group, locator, start))
            except ListUnreadable as error:
                if locator.from_file == "-":  # standard input cannot be read again
                    raise
                seconds = min(60.0, _RETRY_SECONDS * 2 ** min(attempt, _MAX_DOUBLINGS))
                text = f"{error.message}; retry {attempt + 1} of {self._run.settings.seed_retries} in {seconds:g} s"
                yield from self._retry_busy(partial(self._record_warning, text))
                resume_at = time.monotonic() + seconds
                while time.monotonic() < resume_at:
                    yield []
                stored = yield from self._retry_busy(lambda: runs.get_seeding(self._run.db, self._run.seq))
                if stored is not None and stored.is_of(start):
                    start = stored
        return (yield from self._seed_locator(group, locator, start))

    def _seed_locator(
        self, group: LocatorGroup, locator: Locator, start: SeedingProgress
    ) -> Generator[list[int], None, int]:
        """Seed what is left of a locator; returns the number of its seeds."""
        progress = start
        self.reader.begin(start.unusable, has_routes=group.name in self._routed)
        self._told = 0
        self._run.db.resize_cache(LIST_CACHE_KB if locator.from_file is not None else None)
        for kind, seeds in self.reader.list_seeds(locator, start if start.offset else None):
            is_last = False
            while not is_last:
                batch, is_last = take_batch(seeds, self._jobs.batch_size)
                reached = self._reached(progress, len(batch))
                if reached != progress:
                    write = partial(self._write_batch, group, locator, batch, kind, reached)
                    yield (yield from self._retry_busy(write))
                    progress = reached
                elif not is_last:
                    yield []  # nothing can be read now
        self._run.db.resize_cache(None)
        if self.reader.unusable > MAX_REPORTED:
            text = f"{start.list}: {self.reader.unusable:,} seeds give no job; events tell the first {MAX_REPORTED}"
            yield from self._retry_busy(partial(self._record_warning, text))
        return progress.seeds

    def _reached(self, progress: SeedingProgress, seeds: int) -> SeedingProgress:
        """The progress after so many more seeds."""
        reached = replace(progress, seeds=progress.seeds + seeds, unusable=self.reader.unusable)
        if (read := self.reader.list) is not None:
            offset, line = read.position
            return replace(reached, stamp=read.stamp, offset=offset, line=line, size=read.size)
        return replace(reached, line=reached.seeds + reached.unusable)

    def _record_warning(self, text: str) -> None:
        with self._run.db.transaction():
            self._run.log("WARNING", "seed", text)

    def _combine_small(self, groups: list[_OpenGroup]) -> Iterator[list[_OpenGroup]]:
        """The groups in order, small neighbours together: each transaction waits for the disk."""
        together: list[_OpenGroup] = []
        for entry in groups:
            is_small = self._is_small(entry[0])
            if together and (not is_small or len(together) >= _MAX_TOGETHER):
                yield together
                together = []
            if is_small:
                together.append(entry)
            else:
                yield [entry]
        if together:
            yield together

    def _is_small(self, group: LocatorGroup) -> bool:
        """Whether it has a few plain URLs, without lists and patterns."""
        if any(each.from_file is not None or each.body_pieces for each in group.locators):
            return False
        patterns = [url for locator in group.locators for url in (*locator.urls, locator.sitemap or "")]
        return len(patterns) <= _SMALL_GROUP and not any("{" in url for url in patterns)

    def _read_groups(self, groups: list[_OpenGroup]) -> list[_Batch]:
        self.reader.begin()
        self._told = 0
        batches: list[_Batch] = []
        for group, _ in groups:
            self.reader.has_routes = group.name in self._routed
            for locator in group.locators:
                for kind, seeds in self.reader.list_seeds(locator):
                    if batch := [seed for seed in seeds if seed is not None]:
                        batches.append((group, locator, batch, kind))
        return batches

    def _write_groups(self, groups: list[_OpenGroup], batches: list[_Batch]) -> list[int]:
        """Seed small groups, and complete their checkpoints, in one transaction."""
        seeded_hosts: set[int] = set()
        self._empty_lists = []
        with self._jobs.placing():
            for group, locator, batch, kind in batches:
                seeded_hosts |= self._jobs.add(group.name, locator, batch, kind)
            for group, content_hash in groups:
                self._complete(group, Checkpoint(step=SEEDER, group=group.name, content_hash=content_hash))
            self._record_problems()
            if self.reader.unusable > MAX_REPORTED:
                text = f"{self.reader.unusable - MAX_REPORTED} more seeds give no job"
                self._run.log("ERROR", "seed", text)
            return self._ring(seeded_hosts)

    def _write_batch(
        self, group: LocatorGroup, locator: Locator, batch: list[Seed], kind: JobKind, reached: SeedingProgress
    ) -> list[int]:
        """Create the jobs of a batch, and record that the list is read so far."""
        rung: list[int] = []
        with self._jobs.placing():
            if batch:
                rung = self._ring(self._jobs.add(group.name, locator, batch, kind))
            if locator.from_file is not None:
                runs.set_seeding(self._run.db, self._run.seq, replace(reached, empty=tuple(self._empty_lists)))
            self._record_problems()
        self._told = len(self.reader.problems)
        return rung

    def _record_problems(self) -> None:
        """Record the problems that were read since the last transaction."""
        for text in self.reader.problems[self._told :]:
            self._run.log("ERROR", "seed", text)

    def _ring(self, seeded_hosts: set[int]) -> list[int]:
        self._jobs.readmit(seeded_hosts)
        return rings.ring_hosts(self._run.db, seeded_hosts, store_time())

    def _write_checkpoint(self, group: LocatorGroup, content_hash: str, *, completed: bool) -> list[int]:
        """Record the seeder's checkpoint of a group; an invalid one stays invalid until it is complete."""
        run = self._run.seq
        checkpoint = Checkpoint(step=SEEDER, group=group.name, content_hash=content_hash)
        with self._run.db.transaction():
            if completed:
                self._complete(group, checkpoint)
            elif checkpoints.is_complete(self._run.db, run, SEEDER, group.name, content_hash) is None:
                checkpoints.write(self._run.db, run, [checkpoint])
        return []

    def _complete(self, group: LocatorGroup, checkpoint: Checkpoint) -> None:
        checkpoints.write(self._run.db, self._run.seq, [replace(checkpoint, completed_at=time.time(), status="valid")])
        runs.set_empty_seeds(self._run.db, self._run.seq, group.name, self._empty_lists)


def _list_name(locator: Locator) -> str:
    """The list of a locator, for messages."""
    if locator.from_file is None:
        return locator.name
    return "standard input" if locator.from_file == "-" else shown_path(locator.from_file)


def check_seedable(definitions: Definitions, base_url: str | None, *, allow_file: bool) -> None:
    """Raise UsageError if a locator cannot give jobs: a relative URL without a base, an unreadable list."""
    check_base_url(base_url)
    unseedable = find_unseedable(definitions, base_url, allow_file=allow_file)
    if unseedable is not None:
        position, problem, remedy = unseedable
        raise UsageError(f"{position}: {problem}", remedy)


def find_unseedable(
    definitions: Definitions, base_url: str | None, *, allow_file: bool
) -> tuple[SourcePosition, str, str] | None:
    """The first locator that cannot give jobs: its position, the problem, the remedy."""
    for position, url in () if base_url else find_relative_urls(definitions):
        return (
            position,
            f"relative URL {url!r}{urls.scheme_hint(url)}",
            "Write `baseUrl:` in the defs, or give --base-url.",
        )
    for position, url in () if allow_file else find_file_urls(definitions, base_url):
        return position, f"{FILES_NOT_ALLOWED}: {url}", "Give --allow-file, or the setting allow_file."
    for locator in (each for group in definitions.locator_groups for each in group.locators):
        path = locator.from_file
        if path is None or path == "-":
            continue
        if not os.access(path, os.R_OK):
            return locator.place, f"cannot read {shown_path(path)}", "Fix the `from` of the locator, or the file."
    return None
