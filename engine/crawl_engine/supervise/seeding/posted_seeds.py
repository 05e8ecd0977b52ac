"""Posts seeds into the latest run, from any process, as if the defs had named them."""

import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice

from msgspec import Struct, field

from crawl_engine import urls
from crawl_engine.errors import UsageError, plural, suggest
from crawl_engine.http.errors import FILES_NOT_ALLOWED
from crawl_engine.model.fingerprint import list_routed_groups
from crawl_engine.model.job import JobKind
from crawl_engine.model.locator import Locator
from crawl_engine.model.variables import decode_variables, has_secrets
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database
from crawl_engine.store.db.retry_busy import retry_busy
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.tables.run import checkpoints, commands, supervisors, versions
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.store.transactions.retry import ensure_accepting
from crawl_engine.supervise.seeding.seed_jobs import Seed, SeedJobs, create_placements
from crawl_engine.supervise.seeding.seed_reader import LIST_CACHE_KB
from crawl_engine.supervise.wal_guard import WalGuard

_WAL_PAUSE = 0.1
"""Seconds between two looks at a log that is too large."""
_MAX_REPORTED = 5
_MAX_SHOWN_CHARACTERS = 200


class PostedSeeds(Struct):
    """Counts of the posted URLs."""

    created: int = 0
    known: int = 0
    """URLs whose jobs the run already had."""
    unusable: int = 0
    """URLs without a job."""
    problems: list[str] = field(default_factory=list)
    """The first unusable URLs, each with its place."""


class SeedPoster:
    """Posts seeds into one group of a run, batch by batch; each batch is one transaction that checks the run."""

    def __init__(
        self, db: Database, run: Run, group: str, settings: Settings, *, given_by: str | None = None
    ) -> None:  # fmt: skip
        """`settings`: for a run that no supervisor of this version has begun. Raises UsageError on an unknown group.

        `given_by`: who posts them over HTTP. Their hosts then do not count as named; files and variables give no job.
        """
        self._db = db
        db.resize_cache(LIST_CACHE_KB)
        self._run = run
        self._group = group
        self._given_by = given_by
        self._settings = _read_settings(db) or settings
        self._wal_guard = WalGuard(db.path)
        self._version = 0
        self._base: str | None = None
        self._has_routes = False
        self._jobs = self._read_defs()
        self.result = PostedSeeds()

    def post(self, written: Iterable[tuple[str, str]], on_batch: Callable[[int], None] = lambda _: None) -> None:
        """Make jobs of URLs as written, each with its place. `on_batch` gets the number of URLs of each batch.

        Waits while the write-ahead log is too large. Raises UsageError while the run is ending, or if its defs lose the
        group; earlier batches stay.
        """
        entries = iter(written)
        while part := list(islice(entries, self._jobs.batch_size)):
            seeds = [seed for place, url in part if (seed := self._resolve(place, url)) is not None]
            if seeds:
                created = retry_busy(partial(self._add, seeds))
                self.result.created += created
                self.result.known += len(seeds) - created
            on_batch(len(part))
            self._wal_guard.check()
            while self._wal_guard.is_full:
                time.sleep(_WAL_PAUSE)
                self._wal_guard.check()

    def log(self) -> None:
        """Record the posted URLs in the run's events."""
        text = f"{plural(self.result.created, 'job')} added to {self._group}"
        with self._db.transaction():
            commands.log_done(self._db, self._run.seq, "seed", text, {"group": self._group}, self._given_by)

    def _add(self, seeds: list[Seed]) -> int:
        """Create the jobs of a batch; returns the number of new ones."""
        db, run = self._db, self._run.seq
        while True:
            with self._jobs.placing():
                ensure_accepting(db, run)
                if versions.current(db, run) == self._version:
                    before = sequences.count(db, run)
                    seeded_hosts = self._jobs.add(self._group, Locator(name=self._group), seeds, JobKind.PAGE)
                    if self._given_by is None:
                        self._jobs.readmit(seeded_hosts)
                    created = sequences.count(db, run) - before
                    if created:
                        checkpoints.reopen(db, run)
                    return created
            self._jobs = self._read_defs()

    def _read_defs(self) -> SeedJobs:
        """Creates jobs by the defs in force. Raises UsageError if they lack the group."""
        with self._db.snapshot():
            self._version = versions.current(self._db, self._run.seq)
            if not self._version:
                raise UsageError(f"run {self._run.id} has no defs yet", "Start it with `crawl-console run`.")
            definitions = versions.read(self._db, self._version)
        groups = {group.name for group in definitions.task_groups} | {g.name for g in definitions.locator_groups}
        if self._group not in groups:
            raise UsageError(
                f"the defs have no group '{self._group}'{suggest(self._group, sorted(groups))}",
                f"Its groups are: {', '.join(sorted(groups)) or 'none'}.",
            )
        self._base = self._run.base_url or definitions.base_url
        self._has_routes = self._group in list_routed_groups(definitions)
        placements = create_placements(self._run.seq, definitions, self._settings)
        return SeedJobs(self._db, self._run.seq, definitions, placements)

    def _resolve(self, place: str, url: str) -> Seed | None:
        """The seed of a URL; None, and a note, if it gives no job."""
        full = urls.resolve(url, self._base, keeps_route=self._has_routes)
        shown = urls.without_credentials(url)[:_MAX_SHOWN_CHARACTERS]
        userinfo = urls.userinfo_of(full) if full is not None and "@" in full else ""
        if full is None:
            problem = urls.describe_unusable(url, self._base)
        elif userinfo and "@" in url:
            problem = f"a password cannot be posted: write the URL in the defs: {shown}"
        elif self._given_by is not None and has_secrets(decode_variables(full)):
            problem = f"a variable cannot be posted over HTTP: write the URL in the defs: {shown}"
        elif urls.is_file_url(full) and not (self._settings.allow_file and self._given_by is None):
            problem = f"{FILES_NOT_ALLOWED}: {shown}"
        else:
            return Seed(urls.without_credentials(full) if userinfo else full, userinfo)
        self.result.unusable += 1
        if len(self.result.problems) < _MAX_REPORTED:
            self.result.problems.append(f"{place}: {problem}")
        return None


def _read_settings(db: Database) -> Settings | None:
    """The settings of the latest supervisor; None without one, or if another version of the program wrote them."""
    text = supervisors.get_meta(db, supervisors.SETTINGS)
    try:
        return None if text is None else Settings.from_json(text)
    except (ValueError, TypeError):
        return None
