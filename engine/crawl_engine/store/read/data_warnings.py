"""Finds warnings about the data of a run: empty fields, and less than in an earlier run."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import orjson
from msgspec import Struct

from crawl_engine.errors import plural
from crawl_engine.host_rules import is_pattern
from crawl_engine.model.definition import DataDef, Definitions, Field
from crawl_engine.model.job import JobKind
from crawl_engine.model.link import COOKIES_PATH, RELATION_PATH
from crawl_engine.model.record import MISS, REFUSED, SLIP, WORKED, counts_selector
from crawl_engine.model.run import RunState
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.read.failures import group_failures
from crawl_engine.store.read.job_range import find_ids
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.host.refusals import GIVEN_UP
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.tables.row import health
from crawl_engine.store.tables.row.health import DataDefHealth, PartSigns
from crawl_engine.store.tables.run import landings, page_repeats, runs, versions
from crawl_engine.store.tables.run.runs import Baseline, FoundWarning, Run
from crawl_engine.urls import similar_host

_HOSTS = f"""
SELECT h.key, (SELECT CAST(total(done) AS INTEGER) FROM sequences WHERE host = h.id AND kind = 'page') AS pages,
    (SELECT CAST(total(records) AS INTEGER) FROM host_health WHERE host = h.id AND field = '') AS records,
    (SELECT CAST(total(rejected) AS INTEGER) FROM host_health WHERE host = h.id AND field = '') AS rejected,
    h.errors, h.gone, h.blocked, {GIVEN_UP} AS given_up
FROM hosts h WHERE h.run = ? AND (h.errors > 0 OR h.gone > 0 OR h.blocked > 0
    OR h.id IN (SELECT host FROM host_health WHERE rejected > 0))
ORDER BY {GIVEN_UP} DESC, h.errors + h.gone + h.blocked DESC, h.id LIMIT 50
"""
_GROUPS_WITHOUT_PAGE = """
SELECT grp FROM page_defs WHERE version = ?
EXCEPT SELECT grp FROM sequences WHERE run = ? AND kind = 'page' AND done > 0
"""
_WHY_NO_PAGE = """
SELECT j.reason, count(*), min(j.url) FROM sequences s CROSS JOIN jobs j ON j.sequence = s.id
WHERE s.run = ? AND s.kind IN ('page', 'sitemap') AND j.state IN ('FAILED', 'SKIPPED')
    AND j.reason NOT LIKE '% by an operator%'
GROUP BY j.reason ORDER BY count(*) DESC, j.reason LIMIT 3
"""
_SKIPPED_SITEMAP = """
SELECT j.url, j.reason FROM sequences s CROSS JOIN jobs j ON j.sequence = s.id AND j.state = 'SKIPPED'
WHERE s.run = ? AND s.kind = 'sitemap' AND s.skipped > 0 LIMIT 1
"""
_LOST_FILE = """
SELECT j.url, j.reason FROM sequences s CROSS JOIN jobs j ON j.sequence = s.id AND j.state = ?
WHERE s.run = ? AND s.kind = 'file' AND s.skipped + s.failed > 0 LIMIT 1
"""
_HOST_RULES = """
SELECT h.value ->> 'name' FROM def_versions v, json_each(v.definitions, '$.hosts') h WHERE v.version = ?
"""
_HAS_HOST = "SELECT 1 FROM hosts WHERE run = ? AND (key = ? OR (key >= ? AND key < ?)) LIMIT 1"
_SOME_HOSTS = "SELECT key FROM hosts WHERE run = ? ORDER BY id LIMIT 1000"
_REQUESTS = "SELECT id, grp, name, request FROM locators WHERE run = ? ORDER BY id LIMIT 200"
_LOCATED = """
SELECT j.id, j.url, j.locator FROM jobs j
WHERE j.id >= :first AND j.id < :end AND +j.run = :run AND j.origin = 'locator' AND j.parent IS NULL ORDER BY j.id
"""
# by plain links; or by the next page of one of two locators of a group, which a plain link would be, too
_LEADING_ON = f"""
SELECT i.value, EXISTS (SELECT 1 FROM jobs j WHERE j.parent = i.value AND j.link_request IS NULL) AS by_links,
    EXISTS (SELECT 1 FROM jobs j WHERE j.parent = i.value AND j.page_key IS NOT NULL
        AND j.link_request ->> '{RELATION_PATH}' = 'next' AND j.link_request ->> '{COOKIES_PATH}' IS NULL) AS by_next
FROM json_each(?) i
"""
_FIRST_JOBS = 5_000
"""Jobs among which those of locators are compared: they are the first of a run."""
_AT_END = "end"
_ENDED = (RunState.DONE, RunState.CANCELLED, RunState.KILLED, RunState.FAILED)

_MAX_UNUSED = 5
_MAX_NAMES = 4
"""Of one address, without a warning."""
MIN_RECORDS = 20
"""Records from which a field that was never filled is a warning, also of a run that is not DONE, or where the last
DONE run had it filled."""
MIN_PAGES = 20
"""Pages from which a dataDef without a row is a warning in a run that is not DONE."""
REJECTED_SHARE = 0.2
"""The share of rejected records from which a dataDef is a warning, if they are more than one, as the last page's is.

Until the run is DONE, of `MIN_RECORDS` or more."""
FAILING_SHARE = 0.2
"""The share of bad answers from which a host fails. In the whole run: of bad and gone ones, without blocked ones."""
BLOCKED_SHARE = 0.1
"""The share of refused requests from which a host is a warning."""
FALLEN_SHARE = 0.5
"""The share of an earlier run's rows, or of its filled values, down to which a run is a warning."""
MIN_FALLEN = 5
"""Rows, or values of a run with fewer than `MIN_RECORDS`, that must be missing: of very few, half says nothing."""
MIN_FAILED = 5
"""Such answers of a host below which their share says little, unless no page succeeded."""

FIELD_WARNINGS = ("empty-field", "dropped-field", "less-filled")
"""Codes about how often a field was filled."""
VALUE_WARNINGS = (
    "digits-left", "magnitude-left", "digits-joined", "guessed-group", "guessed-number", "guessed-magnitude",
)  # fmt: skip
"""Codes about the values of a field."""
HOST_WARNINGS = ("blocked", "failing-requests")
"""Codes about the answers of a host in the whole run."""
END_WARNINGS = ("expectation", "nothing-fetched", "all-rejected")
"""Codes for which the exit code may be 1."""


_CURES = {"cookies": "`cookieScope: group` sends them along", "headers": "write the headers of these links in `links`"}


class DataWarning(Struct, frozen=True):
    """One sign. `code` and the names of the fields are the keys of `warnings` in JSON, and stable."""

    code: str
    text: str
    data_def: str | None = None
    host: str | None = None
    ended: bool = False
    """Whether it was noticed during the run, and is over."""
    subject: str | None = None
    """The field, group or list of seeds that it is about."""


class _HostCounts(NamedTuple):
    key: str
    pages: int
    records: int
    rejected: int
    errors: int
    gone: int
    blocked: int
    given_up: bool


def find_warnings(db: Database, run: Run, data_defs: dict[str, DataDefHealth]) -> list[DataWarning]:
    """The warnings of a run; empty for a healthy one. Reads counters: of hosts, those with failures alone."""
    parts = _Parts(db, run)
    warnings = [warning for name, data_def in data_defs.items() for warning in parts.of_fields(name, data_def)]
    warnings += [warning for name, data_def in data_defs.items() for warning in parts.of_rows(name, data_def)]
    warnings += parts.of_others() if run.state is RunState.DONE else []
    warnings += [
        DataWarning(code, text, name, subject=field or None)
        for name, field, code, text in health.list_warnings(db, run.seq)
    ]
    for drop in runs.list_drops(db, run.seq):
        text = f"recovered: {drop.text}" if drop.ended else drop.text
        code = "dropped-field" if drop.field else "dropped-rows"
        warnings.append(DataWarning(code, text, drop.data_def, drop.host, drop.ended, drop.field or None))
    for host in db.rows(_HostCounts, _HOSTS, (run.seq,)):
        failures = [] if host.pages else group_failures(db, run.seq, 1, host.key)
        warnings += _of_host(host, *(one.reason for one in failures))
    for one in hosts.list_crowded(db, run.seq, _MAX_NAMES, 3):
        text = f"{one.names:,} hosts are at {one.address}, such as {one.first}, each with its own limits; a pattern in"
        text += f' `hosts` gives them one: {{"{_pattern_of(one.first)}": {{shared: true}}}}'
        warnings.append(DataWarning("one-address", text, subject=one.address))
    for streak in page_repeats.list_found(db, run.seq):
        text = f"{streak.pages:,} pages of {streak.host} in a row gave the same text and fields: {streak.pattern}"
        text += f"; max_repeats skipped {streak.skipped:,}" if streak.skipped else ""
        warnings.append(DataWarning("repeated-pages", text, host=streak.host, subject=streak.group))
    for group, name in runs.list_empty_seeds(db, run.seq):
        warnings.append(DataWarning("empty-seeds", f"no URL in {name}, the seeds of the group {group}", subject=name))
    if failed := sequences.count(db, run.seq, "failed", kind=JobKind.SITEMAP):
        text = f"{plural(failed, 'sitemap')} failed: pages that only they name are missing"
        warnings.append(DataWarning("failed-sitemap", text))
    if skipped := sequences.count(db, run.seq, "skipped", kind=JobKind.SITEMAP):
        url, reason = db.all(_SKIPPED_SITEMAP, (run.seq,))[0]
        text = f"{plural(skipped, 'sitemap')} gave nothing{', such as' if skipped > 1 else ':'} {url} ({reason})"
        warnings.append(DataWarning("empty-sitemap", text))
    if lost := sequences.count(db, run.seq, "failed", "skipped", kind=JobKind.FILE):
        one_lost = db.one(_LOST_FILE, ("FAILED", run.seq)) or db.one(_LOST_FILE, ("SKIPPED", run.seq))
        such = f", such as {one_lost[0]} ({one_lost[1]})" if one_lost is not None else ""
        warnings.append(DataWarning("lost-files", f"{plural(lost, 'file')} could not be had{such}"))
    for setting, problem in runs.list_failed_commands(db, run.seq).items():
        warnings.append(DataWarning("failed-command", problem, subject=setting))
    for finder, found in runs.list_found(db, run.seq).items():
        if finder != _AT_END or run.state in _ENDED:
            warnings += [DataWarning(one.code, one.text, subject=one.subject) for one in found]
    if run.state in _ENDED:
        warnings += [DataWarning("expectation", *missed) for missed in runs.list_missed(db, run.seq)]
    if run.state is RunState.DONE:
        comparable = runs.find_comparable(db, run.seq)
        if comparable is not None:
            warnings += _of_comparison(*comparable)
        if any(warning.code == "nothing-fetched" for warning in warnings):
            return warnings
        warnings += _of_unused_hosts(db, run)
        for (group,) in db.all(_GROUPS_WITHOUT_PAGE, (run.defs_version, run.seq)):
            warnings.append(DataWarning("group-without-page", f"no page of the group {group} was done", subject=group))
    return warnings


def store_found(db: Database, run: Run) -> None:
    """Look once, at the end of a run, for what would cost too much in each snapshot."""
    found = [
        FoundWarning(
            "redirected-pages",
            f"{page.pages:,} pages of the group {page.group} redirect to {page.url}, and have no rows",
            page.group,
        )
        for page in landings.list_crowded(db, run.seq)
    ]
    if run.state is RunState.DONE:
        found += _of_shared_urls(db, run.seq)
        found += [] if sequences.count(db, run.seq, "done") else _of_nothing(db, run.seq)
    runs.set_found(db, run.seq, _AT_END, found)


def describe_shortfall(
    failed: int, failed_files: int, warnings: Iterable[DataWarning], data_defs: Mapping[str, DataDefHealth]
) -> list[str]:
    """What an ended run lacks, the worst first: `252 failed`, `518 rows without price`, missed expectations."""
    told = [warning for warning in warnings if not warning.ended]
    lacking = dict.fromkeys(
        (one.data_def, one.subject) for one in told if one.code in FIELD_WARNINGS and one.data_def and one.subject
    )
    names = Counter(name for _, name in lacking)
    counts = [
        (data_defs[data_def].missing.get(name, 0), name if names[name] == 1 else f"{data_def}.{name}")
        for data_def, name in lacking
        if data_def in data_defs
    ]
    return [
        *([f"{failed:,} failed"] if failed else []),
        *([f"{plural(failed_files, 'file')} failed"] if failed_files else []),
        *(f"{plural(count, 'row')} without {name}" for count, name in sorted(counts, reverse=True) if count),
        *(one.text for one in told if one.code in END_WARNINGS),
    ]


class _Parts:
    """The parts of the dataDefs of a run that gave nothing, with their places and what pages showed of them."""

    def __init__(self, db: Database, run: Run) -> None:
        self._db, self._run = db, run

    @cached_property
    def _definitions(self) -> Definitions:
        version = self._run.defs_version
        return Definitions() if version is None else versions.read(self._db, version)

    @cached_property
    def _signs(self) -> dict[tuple[str, str], PartSigns]:
        return health.list_signs(self._db, self._run.seq)

    def of_fields(self, name: str, data_def: DataDefHealth) -> Iterator[DataWarning]:
        """Fields that were never filled. One with a default may be missing, unless a page shows the slip."""
        records, done = data_def.records, self._run.state is RunState.DONE
        for field, missing in data_def.missing.items():
            least = 1 if done and not counts_selector(field) else MIN_RECORDS
            if missing < records or records < least or (records < MIN_RECORDS and data_def.rejected >= records):
                continue
            if field in data_def.defaulted and not (done and SLIP in self._texts_of(name, field)):
                continue
            if records < MIN_RECORDS and health.was_filled_before(self._db, self._run.seq, data_def.id, field):
                continue
            yield self._empty_field(name, field, f" in {plural(records, 'record')}")

    def of_rows(self, name: str, data_def: DataDefHealth) -> Iterator[DataWarning]:
        """A dataDef that gave no row, with the selector that may be to blame."""
        records, rejected, done = data_def.records, data_def.rejected, self._run.state is RunState.DONE
        if rejected and rejected >= records:
            text = f"every record of {name} was rejected ({records:,})"
            yield DataWarning("all-rejected", f"{text}{self._why_rejected(name, data_def)}", data_def=name)
        elif rejected > 1 and rejected >= REJECTED_SHARE * records and (records >= MIN_RECORDS or done):
            text = f"{rejected:,} of {plural(records, 'record')} of {name} were rejected"
            missing = [(data_def.missing.get(field.name, 0), field.name) for field in self._required(name)]
            if missing and max(missing)[0]:
                text += f": {max(missing)[1]} was not filled in {max(missing)[0]:,}"
            yield DataWarning("many-rejected", text, data_def=name)
        elif not records and (data_def.pages >= MIN_PAGES or (data_def.pages and done)):
            yield DataWarning("no-rows", self._describe_no_rows(name, data_def), data_def=name)

    def of_others(self) -> Iterator[DataWarning]:
        """Links, `next` and nested fields that never gave anything, nor in the last DONE run."""
        for (name, part), signs in self._signs.items():
            data_def = self._definitions.data_def(name)
            if data_def is None or WORKED in signs.texts or not {SLIP, MISS} & signs.texts.keys():
                continue
            is_link = part == "next" or part.startswith("links[")
            outer, _, inner = part.partition(".")
            is_nested = bool(inner) and any(field.name == outer and field.fields for field in data_def.fields)
            if not (is_link or is_nested) or health.worked_before(self._db, self._run.seq, signs.data_def, part):
                continue
            if is_nested:
                yield self._empty_field(name, part, "")
                continue
            text = f"{name}: {part}{self._describe_link(data_def, part)} led to no page{self._why(name, part)}"
            yield DataWarning("idle-link", text, name, subject=part)

    def _empty_field(self, name: str, field: str, of: str) -> DataWarning:
        data_def = self._definitions.data_def(name)
        found = None if data_def is None else _find_field(data_def.fields, field)
        by, place = "", ""
        if found is not None:
            by = f" by `{found.selector}`" if found.selector else ""
            by = f" by the column `{found.column}`" if found.column else by
            place = _shown_place(found.selector_place, found.place)
        text = f"{name}.{field} was never filled{of}{by}{place}{self._why(name, field)}"
        return DataWarning("empty-field", text, name, subject=field)

    def _describe_no_rows(self, name: str, health_: DataDefHealth) -> str:
        pages, data_def = plural(health_.pages, "page"), self._definitions.data_def(name)
        if health_.filtered:
            place = "" if data_def is None else _shown_place(*[rule.place for rule in data_def.filters[:1]])
            return f"{name}: its filters{place} dropped every record ({health_.filtered:,}) of {pages}"
        if data_def is None or data_def.block is None:
            return f"{name} gave no row on {pages}"
        what = "value" if data_def.block.startswith(("jmespath", "jsonld")) else "element"
        place = _shown_place(data_def.block_place)
        return f"{name}: block `{data_def.block}`{place} matched no {what} on {pages}{self._why(name, 'block')}"

    def _why_rejected(self, name: str, data_def: DataDefHealth) -> str:
        """The required field that was never filled, or else the first reason of a rejection."""
        for field in self._required(name):
            if data_def.missing.get(field.name, 0) >= data_def.records:
                tried = " or ".join([f"`{one}`" for one in (field.selector, *field.fallbacks) if one])
                place = _shown_place(field.selector_place, field.place)
                by = f" by {tried}" if tried else ""
                return f": {field.name} was never filled{by}{place}{self._why(name, field.name)}"
        parts = {part: of.texts for (of_name, part), of in self._signs.items() if of_name == name}
        refused = [f": {part}: {texts[REFUSED]}" for part, texts in parts.items() if REFUSED in texts]
        return refused[0] if refused else ""

    def _required(self, name: str) -> list[Field]:
        data_def = self._definitions.data_def(name)
        return [] if data_def is None else [field for field in data_def.fields if field.required]

    def _texts_of(self, name: str, part: str) -> dict[str, str]:
        signs = self._signs.get((name, part))
        return {} if signs is None else signs.texts

    def _why(self, name: str, part: str) -> str:
        signs = self._signs.get((name, part))
        return f"; {signs.miss}" if signs is not None and signs.miss else ""

    def _describe_link(self, data_def: DataDef, part: str) -> str:
        """The selector of a link, and where it or `next` is written."""
        if part == "next":
            return "" if data_def.next is None else _shown_place(data_def.next.place)
        number = int(part.removeprefix("links[").removesuffix("]")) - 1
        link = data_def.links[number] if number < len(data_def.links) else None
        return "" if link is None else f" `{link.selector}`{_shown_place(link.place)}"


def _find_field(fields: tuple[Field, ...], path: str) -> Field | None:
    """The field of a path such as `price`, or `variants.price`."""
    by_name = {field.name: field for field in fields}
    outer, _, inner = path.partition(".")
    return by_name.get(path) or (_find_field(by_name[outer].fields, inner) if inner and outer in by_name else None)


def _shown_place(*places: SourcePosition) -> str:
    """The first that is known, in brackets; defs of before lack those of selectors."""
    known = next((place for place in places if place.file), None)
    return "" if known is None else f" ({known})"


def _of_nothing(db: Database, run: int) -> list[FoundWarning]:
    """A complete run without a page, with the reasons. A job that an operator excluded is none."""
    reasons = [
        f"{url}{f' and {count - 1:,} more' if count > 1 else ''}: {reason}"
        for reason, count, url in db.all(_WHY_NO_PAGE, (run,))
    ]
    return [FoundWarning("nothing-fetched", f"no page was fetched: {'; '.join(reasons)}")] if reasons else []


def _of_shared_urls(db: Database, run: int) -> list[FoundWarning]:
    """URLs that locators asked for with other cookies or headers, and whose links led to pages for all."""
    asked = {id_: (group, name, orjson.loads(request)) for id_, group, name, request in db.all(_REQUESTS, (run,))}
    if len({orjson.dumps([request["cookies"], request["headers"]]) for _, _, request in asked.values()}) < 2:
        return []
    first, _ = find_ids(db, run)
    by_url: dict[str, list[tuple[int, int]]] = {}
    for job, url, locator in db.all(_LOCATED, {"run": run, "first": first, "end": first + _FIRST_JOBS}):
        if locator in asked:
            by_url.setdefault(url, []).append((job, locator))
    several = {url: made for url, made in by_url.items() if len(made) > 1}
    leading = db.all(_LEADING_ON, (id_list(job for made in several.values() for job, _ in made),)) if several else []
    by_links, by_next = {job for job, links, _ in leading if links}, {job for job, _, next_ in leading if next_}
    found: list[tuple[str, str, str]] = []
    for url, made in several.items():
        senders = [asked[locator] for _, locator in made]
        same_group = len({group for group, _, _ in senders}) < len(senders)
        if not any(job in by_links or (same_group and job in by_next) for job, _ in made):
            continue
        for part in ("cookies", "headers"):
            alone = [request for _, _, request in senders if part == "headers" or "cookie_scope" not in request]
            if len({orjson.dumps(sorted(request[part])) for request in alone}) > 1:
                found.append((url, part, ", ".join(dict.fromkeys(name for _, name, _ in senders))))
                break
    if not found:
        return []
    url, part, names = found[0]
    others = f" and {plural(len(found) - 1, 'other URL')}" if len(found) > 1 else ""
    text = f"the locators {names} ask for {url}{others} with other {part}, but the pages that it leads to were"
    text += f" asked for once, for all of them, without these; {_CURES[part]}"
    return [FoundWarning("shared-url", text, url)]


def _pattern_of(name: str) -> str:
    """A pattern for a name and its neighbours: the last part of an address varies, the first one of a name."""
    start, _, last = name.rpartition(".")
    return f"{start}.*" if last.isdigit() else f"*.{name.partition('.')[2] or name}"


def _of_unused_hosts(db: Database, run: Run) -> Iterator[DataWarning]:
    """The rules of hosts without a request: their delay, login or limits applied to nothing."""
    names = db.column(_HOST_RULES, (run.defs_version,))
    unused = [
        name
        for name in names
        if not is_pattern(name) and not db.one(_HAS_HOST, (run.seq, name, f"{name}:", f"{name};"))
    ]
    keys = db.column(_SOME_HOSTS, (run.seq,)) if unused else []
    for name in unused[:_MAX_UNUSED]:
        similar = similar_host(name, keys)
        meant = f"; did you mean {similar}?" if similar else ""
        yield DataWarning("unused-host", f"hosts.{name}: no request went to it{meant}", subject=name)


def _of_comparison(now: Baseline, run: str, then: Baseline) -> Iterator[DataWarning]:
    """What fell by half or more since an earlier run with the same seeds."""
    for name, earlier in then.data_defs.items():
        given = now.data_defs.get(name)
        if given is None:
            continue
        if earlier.rows - given.rows >= MIN_FALLEN and given.rows <= earlier.rows * FALLEN_SHARE:
            text = f"{name}: {plural(given.rows, 'row')}; run {run} had {earlier.rows:,}"
            yield DataWarning("fewer-rows", text, data_def=name)
        if not given.records or not earlier.records:
            continue
        is_small = min(given.records, earlier.records) < MIN_RECORDS
        for field, filled in earlier.filled.items():
            share, share_then = given.filled.get(field, 0) / given.records, filled / earlier.records
            if is_small and (share_then - share) * given.records < MIN_FALLEN:
                continue
            if 0 < share <= share_then * FALLEN_SHARE:  # one that is never filled is a warning of its own
                text = f"{name}.{field} is filled in {share:.0%} of the records; in run {run} in {share_then:.0%}"
                yield DataWarning("less-filled", text, name, subject=field)


def _of_host(counts: _HostCounts, reason: str = "") -> Iterator[DataWarning]:
    """`reason`: why most pages of a host that gave none failed."""
    host, blocked = counts.key, counts.blocked
    if counts.rejected and counts.rejected >= counts.records:
        yield DataWarning("all-rejected", f"every record of {host} was rejected ({counts.records:,})", host=host)
    failed = counts.errors + counts.gone
    requests = failed + counts.pages + blocked
    is_much = blocked >= BLOCKED_SHARE * requests and (blocked >= MIN_FAILED or not counts.pages)
    if blocked and (is_much or counts.given_up):
        end = "; given up: what was left of it failed without a request" if counts.given_up else ""
        text = f"{host} refused {blocked:,} of {plural(requests, 'request')}{end}"
        yield DataWarning("blocked", text, host=host)
    if failed and failed >= FAILING_SHARE * requests and (failed >= MIN_FAILED or not counts.pages):
        kinds = ((counts.errors + blocked, "bad"), (counts.gone, "gone"))
        named = " and ".join(f"{count:,} {word}" for count, word in kinds if count)
        text = f"{named} of {plural(requests, 'answer')} of {host}{': ' if reason else ''}{reason}"
        yield DataWarning("failing-requests", text, host=host)
