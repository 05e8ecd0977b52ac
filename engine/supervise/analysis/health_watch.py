"""Notices that a dataDef gives much less than it gave earlier in the same run."""

from collections.abc import Iterator
from typing import NamedTuple

from engine.store.db.connector import Database
from engine.store.tables.row import health
from engine.store.tables.row.health import DataDefHealth
from engine.store.tables.run import runs
from engine.store.tables.run.runs import Drop

WINDOW_PAGES = 50
"""The least number of last pages that are compared with earlier ones."""
MIN_EXPECTED = 60
"""Rows, or filled values, that the window should hold by the share before it; the window grows until it does."""
_DROPPED_SHARE = 0.5
_SAMPLE_PAGES = 10
_MAX_SAMPLES = 400


class _Sample(NamedTuple):
    pages: int
    records: int
    values: dict[str, int]
    """Records in which each field was filled; the empty name stands for rows."""


class _Fall(NamedTuple):
    """The frequency of a value in the window, and before it: in each record, or on each page for rows."""

    name: str
    now: float
    before: float
    of: int
    """The number of records, or pages, of the window."""
    overall: float
    """The frequency in the whole run."""
    since: int | None = None
    """The page since which the field is empty; None: it is not."""

    @property
    def is_drop(self) -> bool:
        return self.now < self.before * _DROPPED_SHARE


class DropDetector:
    """Watches one dataDef."""

    def __init__(self) -> None:
        self._samples: list[_Sample] = []
        self._id: int | None = None

    def start_again_if_new(self, data_def: DataDefHealth) -> bool:
        """Whether the dataDef has a new version: then its counters are not compared with earlier ones.

        The counts alone do not show it: a fast re-extraction can count as many pages between two samples.
        """
        is_new = self._id not in (None, data_def.id)
        self._id = data_def.id
        if is_new:
            self._samples = []
        return is_new

    def update(self, data_def: DataDefHealth) -> Iterator[_Fall]:
        """Compare the last pages with earlier ones, by field and by rows, if both are enough."""
        now = _sample(data_def)
        if self._samples and now.pages < self._samples[-1].pages:
            self._samples = []  # a re-extraction
        for name in now.values:
            fall = self._compare(name, now)
            if fall is not None:
                yield fall
        if not self._samples or now.pages >= self._samples[-1].pages + _SAMPLE_PAGES:
            self._samples.append(now)
            if len(self._samples) > _MAX_SAMPLES:  # the older ones are needed for long windows alone
                del self._samples[: _MAX_SAMPLES // 2 : 2]

    def _compare(self, name: str, now: _Sample) -> _Fall | None:
        for start in reversed(self._samples):
            if now.pages - start.pages < WINDOW_PAGES:
                continue
            before = start.pages if not name else start.records
            of = now.pages - start.pages if not name else now.records - start.records
            value = start.values.get(name, 0)
            if value < MIN_EXPECTED or not before:
                return None  # earlier samples have even less
            share = value / before
            if of and share * of >= MIN_EXPECTED:
                overall = now.values[name] / ((now.records if name else now.pages) or 1)
                if name and now.values[name] == value:
                    since, share = self._find_end(name, now)
                    return _Fall(name, 0.0, share, of, overall, since)
                return _Fall(name, (now.values[name] - value) / of, share, of, overall)
        return None

    def _find_end(self, name: str, now: _Sample) -> tuple[int, float]:
        """The page since which a field is empty, between two samples by its share before, and that share."""
        after = next(i for i, sample in enumerate(self._samples) if sample.values.get(name) == now.values[name])
        last, before = self._samples[after], self._samples[max(0, after - 1)]
        share = before.values.get(name, 0) / (before.records or 1)
        records = (last.records - before.records) / max(1, last.pages - before.pages)
        filled = now.values[name] - before.values.get(name, 0)
        pages = round(filled / (share * records)) if share and records else last.pages - before.pages
        return min(last.pages, before.pages + pages) + 1, share or now.values[name] / last.records


class HealthWatch:
    """Watches all dataDefs of a run; stores its findings with the run."""

    def __init__(self, db: Database, run: int) -> None:
        self._db = db
        self._run = run
        self._detectors: dict[str, DropDetector] = {}

    def update(self) -> None:
        """Compare, and store the drops if they changed."""
        drops = {(drop.data_def, drop.field): drop for drop in runs.list_drops(self._db, self._run)}
        before = dict(drops)
        for data_def, counts in health.read(self._db, self._run).items():
            detector = self._detectors.setdefault(data_def, DropDetector())
            if detector.start_again_if_new(counts):
                drops |= {key: drop._replace(ended=True) for key, drop in drops.items() if drop.data_def == data_def}
            for fall in detector.update(counts):
                key = (data_def, fall.name)
                if fall.is_drop:
                    drops[key] = Drop(data_def, fall.name, _describe(data_def, fall), False)
                elif not fall.is_drop and key in drops:
                    drops[key] = drops[key]._replace(ended=True)
        if drops != before:
            with self._db.transaction():
                runs.set_drops(self._db, self._run, list(drops.values()))


def _sample(data_def: DataDefHealth) -> _Sample:
    values = {**data_def.filled, "": data_def.records - data_def.rejected}
    return _Sample(data_def.pages, data_def.records, values)


def _describe(data_def: str, fall: _Fall) -> str:
    if not fall.name:
        return f"{data_def} gave {fall.before:.3g} rows a page, and {fall.now:.3g} on the last {fall.of:,} pages"
    now = f"is empty since page {fall.since:,}" if fall.since else f"in {fall.now:.0%} of the last {fall.of:,}"
    text = f"{data_def}.{fall.name} was filled in {fall.before:.0%} of the records, and {now}"
    return f"{text}; {fall.overall:.0%} in all"
