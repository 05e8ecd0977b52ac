"""Notices that a dataDef gives much less than it gave earlier in the same run."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from crawl_engine.model.record import counts_selector
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.row import health
from crawl_engine.store.tables.row.health import DataDefHealth
from crawl_engine.store.tables.run import runs
from crawl_engine.store.tables.run.runs import Drop
from crawl_engine.supervise.run_context import RunContext

WINDOW_PAGES = 50
"""The least number of last pages that are compared with earlier ones."""
MIN_EXPECTED = 60
"""Rows, or filled values, that the window should hold by the share before it; the window grows until it does."""
MIN_GONE = 20
"""Both numbers for a value that is gone altogether, at the end of a run, and while there are few values."""
_MAX_REPLAYED = 5_000
"""Pages of a run that is judged page by page at its end."""
HOST_WINDOW = 25
"""Both numbers for one of many hosts."""
_MAX_HOSTS_WATCHED, _MAX_HOSTS_NAMED = 300, 3
_HOSTS_SECONDS, _COST_SHARE = 2.0, 0.01
"""Seconds between two comparisons of the hosts, and the share of the time that they may take."""
_DROPPED_SHARE = 0.5
_SAMPLE_PAGES = 10
_MAX_SAMPLES = 400


DropKey = tuple[str, str, str | None]
"""DataDef, field and host."""


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
    told: str = ""
    """What an earlier start of the run said of it, when there was more to compare."""

    @property
    def is_drop(self) -> bool:
        return self.now < self.before * _DROPPED_SHARE

    def follows(self, earlier: "_Fall | Drop | None") -> bool:
        """Whether it has not recovered from an earlier drop, by the share before that one."""
        return earlier is not None and self.now < earlier.before * _DROPPED_SHARE


class DropDetector(Struct):
    """Watches one dataDef, by default on all hosts."""

    window: int = WINDOW_PAGES
    expected: int = MIN_EXPECTED
    step: int = _SAMPLE_PAGES
    """The pages between two samples."""
    _samples: list[_Sample] = []
    _id: int | None = None

    def start_again_if_new(self, data_def: DataDefHealth) -> bool:
        """Whether the dataDef has a new version: then its counters are not compared with earlier ones.

        The counts alone do not show it: a fast re-extraction can count as many pages between two samples.
        """
        is_new = self._id not in (None, data_def.id)
        self._id = data_def.id
        if is_new:
            self._samples = []
        return is_new

    def update(self, data_def: DataDefHealth, *, last: bool = False) -> Iterator[_Fall]:
        """Compare the last pages with earlier ones, by field and by rows, if both are enough.

        `last`: no further pages come, so that fewer must do.
        """
        now = _sample(data_def)
        if self._samples and now.pages < self._samples[-1].pages:
            self._samples = []  # a re-extraction
        for name in now.values:
            fall = self._compare(name, now, last=last)
            if fall is not None:
                yield fall
        self._add(now)

    def note(self, data_def: DataDefHealth) -> None:
        """Take a sample, and compare nothing."""
        self._add(_sample(data_def))

    def _add(self, now: _Sample) -> None:
        if not self._samples or now.pages >= self._samples[-1].pages + self.step:
            self._samples.append(now)
            if len(self._samples) > _MAX_SAMPLES:  # the older ones are needed for long windows alone
                del self._samples[: _MAX_SAMPLES // 2 : 2]

    def _compare(self, name: str, now: _Sample, *, last: bool) -> _Fall | None:
        for start in reversed(self._samples):
            pages = now.pages - start.pages
            before = start.pages if not name else start.records
            of = pages if not name else now.records - start.records
            value = start.values.get(name, 0)
            is_gone = value == now.values[name] and (last or value < self.expected)
            window, expected = (MIN_GONE, MIN_GONE) if is_gone else (self.window, self.expected)
            if pages < window:
                continue
            if value < expected or not before:
                return None  # earlier samples have even less
            share = value / before
            if of and share * of >= expected:
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


class HealthWatch(Struct):
    """Watches all dataDefs of a run, and the part of each host; stores its findings with the run."""

    run: RunContext
    _detectors: dict[str, DropDetector] = {}
    _by_host: dict[tuple[str, int], DropDetector] = {}
    _host_falls: dict[tuple[str, str], dict[int, _Fall]] = {}
    """By dataDef and field, the hosts whose pages lack it."""
    _on_several: set[tuple[str, str]] = set()
    """Those that many hosts lack, but not all of them together."""
    _hosts_due: float = 0.0
    _earlier: dict[DropKey, Drop] | None = None
    """The drops that earlier starts of the run left open; None: they are not read yet."""

    def update(self, answered: Sequence[int] = (), *, last: bool = False) -> None:
        """Compare, and store the drops if they changed. `answered`: hosts that answered just now.

        `last`: no further pages come.
        """
        drops = {drop.key: drop for drop in runs.list_drops(self.run.db, self.run.seq)}
        before = dict(drops)
        if self._earlier is None:
            self._earlier = {key: drop for key, drop in drops.items() if not drop.ended}
            self._take_over(self._earlier.values())
        data_defs = health.read(self.run.db, self.run.seq)
        for data_def, counts in data_defs.items():
            detector = self._detectors.setdefault(data_def, DropDetector())
            if detector.start_again_if_new(counts):
                drops |= {key: drop._replace(ended=True) for key, drop in drops.items() if drop.data_def == data_def}
                self._host_falls = {key: falls for key, falls in self._host_falls.items() if key[0] != data_def}
            for fall in detector.update(counts, last=last):
                key = (data_def, fall.name, None)
                held = drops.get(key)
                lasting = held if held is not None and not held.ended and not held.hosts else None
                if fall.is_drop:
                    drops[key] = self._continue(lasting, data_def, fall)
                    self._on_several.discard(key[:2])
                elif held is not None and key[:2] not in self._on_several and not fall.follows(lasting):
                    drops[key] = held._replace(ended=True)
        if last:
            for data_def, fall in self._replay(data_defs):
                text = _describe(data_def, fall)
                drops[data_def, fall.name, None] = Drop(data_def, fall.name, text, False, before=fall.before)
        self._compare_hosts(answered, data_defs)
        for pair, falls in self._host_falls.items():
            self._judge_hosts(drops, pair, falls)
        if drops != before:
            with self.run.db.transaction():
                runs.set_drops(self.run.db, self.run.seq, list(drops.values()))

    def _take_over(self, drops: Iterable[Drop]) -> None:
        """Go on with what hosts lacked at an earlier start: only their own pages end it."""
        for drop in drops:
            pair = drop.data_def, drop.field
            if drop.hosts and drop.host is None:
                self._on_several.add(pair)
            for host in drop.hosts:
                fall = _Fall(drop.field, 0.0, drop.before, 0, 0.0, told=drop.text if drop.host is not None else "")
                self._host_falls.setdefault(pair, {})[host] = fall

    def _continue(self, lasting: Drop | None, data_def: str, fall: _Fall) -> Drop:
        """The drop of a value; of one that lasts, with the greater share before it."""
        text, share = _describe(data_def, fall), fall.before
        if lasting is not None:
            share = max(share, lasting.before)
            if lasting.key in (self._earlier or {}) and fall.name:  # this start knows less of the time before
                text = f"{lasting.text.rpartition('; ')[0]}; {fall.overall:.0%} in all"
        return Drop(data_def, fall.name, text, False, before=share)

    def _replay(self, data_defs: Mapping[str, DataDefHealth]) -> Iterator[tuple[str, _Fall]]:
        """The drops at the end of a small run, page by page: it may have ended between two samples."""
        pages = sum(data_def.pages for data_def in data_defs.values())
        if not 2 * MIN_GONE <= pages <= _MAX_REPLAYED:
            return
        names = {data_def.id: name for name, data_def in data_defs.items()}
        sums = {name: DataDefHealth(0, 0, 0, {}, frozenset(), counts.id) for name, counts in data_defs.items()}
        detectors = {name: DropDetector(step=1) for name in data_defs}
        for data_def, records, rejected, missing in health.list_pages(self.run.db, self.run.seq, pages):
            if (name := names.get(data_def)) is None:
                continue
            of_page = DataDefHealth(1, records, rejected, missing, frozenset())
            sums[name] = now = sums[name].plus(of_page, data_defs[name])
            if now.pages < data_defs[name].pages:
                detectors[name].note(now)
            else:
                yield from ((name, fall) for fall in detectors[name].update(now, last=True) if fall.is_drop)

    def _compare_hosts(self, answered: Sequence[int], data_defs: Mapping[str, DataDefHealth]) -> None:
        """Watch the fields of each host alone: the others would hide what one of many lacks."""
        began = time.monotonic()
        if not answered or began < self._hosts_due:
            return
        watched = {host for _, host in self._by_host}
        chosen = [host for host in answered if host in watched or len(watched) < _MAX_HOSTS_WATCHED]
        for host, counts in health.read_hosts(self.run.db, chosen[:_MAX_HOSTS_WATCHED], data_defs).items():
            for name, of_host in counts.items():
                detector = self._by_host.setdefault((name, host), DropDetector(HOST_WINDOW, HOST_WINDOW))
                detector.start_again_if_new(of_host)
                falls = {fall.name: fall for fall in detector.update(of_host) if fall.name}
                falls |= {fall.name: fall for fall in _find_never_filled(of_host, data_defs[name])}
                for field, fall in falls.items():
                    held = self._host_falls.setdefault((name, field), {})
                    earlier = held.pop(host, None)
                    if earlier is not None and earlier.told and (fall.is_drop or fall.follows(earlier)):
                        held[host] = earlier
                    elif fall.is_drop:
                        held[host] = fall if earlier is None else fall._replace(before=max(fall.before, earlier.before))
                    elif earlier is not None and fall.follows(earlier):
                        held[host] = earlier
        ended = time.monotonic()
        self._hosts_due = ended + max(_HOSTS_SECONDS, (ended - began) / _COST_SHARE)

    def _judge_hosts(self, drops: dict[DropKey, Drop], pair: tuple[str, str], falls: Mapping[int, _Fall]) -> None:
        """Note the hosts that lack a field of a dataDef: few one by one, many together; none if all together do."""
        key = (*pair, None)
        is_whole = key in drops and not drops[key].ended and pair not in self._on_several
        names = hosts.list_names(self.run.db, falls)
        found: dict[DropKey, Drop] = {}
        if len(falls) > _MAX_HOSTS_NAMED and not is_whole:
            first = ", ".join(list(names.values())[:_MAX_HOSTS_NAMED])
            more = len(falls) - _MAX_HOSTS_NAMED
            text = f"{'.'.join(pair)} is empty on {len(falls):,} hosts: {first} and {more:,} more"
            share = min(fall.before for fall in falls.values())
            found[key] = Drop(*pair, text, False, before=share, hosts=tuple(falls))
            self._on_several.add(pair)
        elif not is_whole:
            found = {
                (*pair, names[host]): Drop(
                    *pair,
                    fall.told or _describe_on_host(".".join(pair), names[host], fall),
                    False,
                    names[host],
                    fall.before,
                    (host,),
                )
                for host, fall in falls.items()
            }
        for other, drop in drops.items():
            if other[:2] == pair and other not in found and (drop.host is not None or pair in self._on_several):
                drops[other] = drop._replace(ended=True)
        if key not in found:
            self._on_several.discard(pair)
        drops |= found


def _find_never_filled(of_host: DataDefHealth, whole: DataDefHealth) -> Iterator[_Fall]:
    """The fields that no page of a host fills, while those of other hosts do."""
    others = whole.records - of_host.records
    if of_host.records < HOST_WINDOW or others < HOST_WINDOW:
        return
    for name, filled in of_host.filled.items():
        if not filled and not counts_selector(name):  # a list of selectors may have one for each host
            elsewhere = (whole.filled[name] - filled) / others
            yield _Fall(name, 0.0, elsewhere if elsewhere >= _DROPPED_SHARE else 0.0, of_host.records, 0.0)


def _sample(data_def: DataDefHealth) -> _Sample:
    values = {**data_def.filled, "": data_def.records - data_def.rejected}
    return _Sample(data_def.pages, data_def.records, values)


def _describe(data_def: str, fall: _Fall) -> str:
    if not fall.name:
        return f"{data_def} gave {fall.before:.3g} rows a page, and {fall.now:.3g} on the last {fall.of:,} pages"
    now = f"is empty since page {fall.since:,}" if fall.since else f"in {fall.now:.0%} of the last {fall.of:,}"
    text = f"{data_def}.{fall.name} was filled in {fall.before:.0%} of the records, and {now}"
    return f"{text}; {fall.overall:.0%} in all"


def _describe_on_host(field: str, host: str, fall: _Fall) -> str:
    if not fall.overall:
        return f"{field} was never filled on {host}, in {fall.of:,} records; elsewhere in {fall.before:.0%}"
    now = f"is empty since its page {fall.since:,}" if fall.since else f"in {fall.now:.0%} of the last {fall.of:,}"
    return f"{field} on {host} was filled in {fall.before:.0%} of the records, and {now}; {fall.overall:.0%} in all"
