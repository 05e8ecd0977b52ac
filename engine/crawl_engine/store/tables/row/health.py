"""Writes how records were filled: `health`, `page_warnings`, and health by field, host and page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import orjson
from msgspec import Struct, field

from crawl_engine.model.record import MISS, SIGNS, SLIP, WORKED, PageWarning, RecordCounts
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.outcome import Commit, Extracted, JobOutcome

_ADD_PAGES = """
INSERT INTO page_health (job, data_def, records, rejected, missing, filtered) {values}
ON CONFLICT (job, data_def) DO UPDATE SET
    records = excluded.records, rejected = excluded.rejected, missing = excluded.missing, filtered = excluded.filtered
"""
_ADD = """
INSERT INTO health (run, data_def, pages, records, rejected, filtered) {values}
ON CONFLICT (run, data_def) DO UPDATE SET
    pages = health.pages + excluded.pages, records = health.records + excluded.records,
    rejected = health.rejected + excluded.rejected, filtered = health.filtered + excluded.filtered
"""
_ADD_FIELDS = """
INSERT INTO field_health (run, data_def, field, defaults, missing) {values}
ON CONFLICT (run, data_def, field) DO UPDATE SET missing = field_health.missing + excluded.missing
"""
_ADD_TO_HOSTS = """
INSERT INTO host_health (host, data_def, field, pages, records, rejected) {values}
ON CONFLICT (host, data_def, field) DO UPDATE SET pages = host_health.pages + excluded.pages,
    records = host_health.records + excluded.records, rejected = host_health.rejected + excluded.rejected
"""
_OF_JOBS = """
SELECT p.data_def, p.records, p.rejected, p.missing, p.filtered, s.host FROM json_each(:jobs) j
CROSS JOIN page_health p ON p.job = j.value
CROSS JOIN jobs o ON o.id = p.job CROSS JOIN sequences s ON s.id = o.sequence
WHERE p.data_def NOT IN (SELECT value FROM json_each(:kept))
"""
_DELETE = """
DELETE FROM page_health WHERE job IN (SELECT value FROM json_each(:jobs))
    AND data_def NOT IN (SELECT value FROM json_each(:kept))
"""
_ADD_WARNINGS = "INSERT INTO page_warnings (run, data_def, field, code, text) {values} ON CONFLICT DO NOTHING"
_ARE_CURRENT = """IN (SELECT j.value FROM page_defs p, json_each(p.data_defs) j
    WHERE p.version = (SELECT defs_version FROM runs WHERE seq = :run))"""
"""Of ids of dataDefs: whether the current defs have them."""
_WARNINGS = f"""
SELECT d.name, w.field, w.code, w.text FROM page_warnings w JOIN data_defs d ON d.id = w.data_def
WHERE w.run = :run AND w.data_def {_ARE_CURRENT} ORDER BY d.name, w.field, w.code
"""
_SIGNS = f"""
SELECT d.name, w.data_def, w.field, w.code, w.text FROM page_warnings w JOIN data_defs d ON d.id = w.data_def
WHERE w.run = :run AND w.data_def {_ARE_CURRENT} AND w.code IN ({", ".join(f"'{code}'" for code in SIGNS)})
ORDER BY d.name, w.field, w.code
"""
_BEFORE = """
SELECT 1 FROM runs r JOIN health h ON h.run = r.seq AND h.data_def = :data_def
LEFT JOIN field_health f ON f.run = r.seq AND f.data_def = h.data_def AND f.field = :part
WHERE r.seq = (SELECT max(o.seq) FROM runs o JOIN health p ON p.run = o.seq AND p.data_def = :data_def
    WHERE o.seq < :run AND o.state = 'DONE') AND f.missing < h.records
"""
_WORKED_BEFORE = f"""
SELECT 1 FROM page_warnings w WHERE w.data_def = :data_def AND w.field = :part AND w.code = '{WORKED}'
    AND w.run = (SELECT max(o.seq) FROM runs o JOIN page_warnings p ON p.run = o.seq AND p.data_def = :data_def
        WHERE o.seq < :run AND o.state = 'DONE')
"""
_CURRENT = f"""
SELECT d.name, h.data_def, h.pages, h.records, h.rejected, h.filtered
FROM health h JOIN data_defs d ON d.id = h.data_def
WHERE h.run = :run AND h.data_def {_ARE_CURRENT} ORDER BY d.name
"""
_OF_HOSTS = """
SELECT host, data_def, field, pages, records, rejected FROM host_health
WHERE host IN (SELECT value FROM json_each(?)) ORDER BY host, data_def, field
"""
_LAST_PAGES = """
SELECT p.data_def, p.records, p.rejected, p.missing
FROM (SELECT * FROM page_health ORDER BY job DESC LIMIT +:most) p JOIN jobs j ON j.id = p.job
WHERE j.run = :run ORDER BY j.changed_at, j.id
"""
_FIELDS = "SELECT data_def, field, defaults, missing FROM field_health WHERE run = ? ORDER BY id"


class PageCounts(Extracted):
    """How the records of a page were filled, with the id (tables.versions) of their dataDef."""

    data_def_id: int
    counts: RecordCounts
    defaulted: frozenset[str] = frozenset()
    """The fields that have a default."""


class NewWarnings(Extracted):
    """Doubts about the values of a page, each with the id of its dataDef."""

    warnings: tuple[tuple[int, PageWarning], ...]


class DataDefHealth(Struct, frozen=True):
    """The counts of a dataDef, as it is now, over the pages of a run."""

    pages: int
    records: int
    rejected: int
    missing: dict[str, int]
    """By field, in the order of the defs."""
    defaulted: frozenset[str]
    """The fields that have a default."""
    id: int = 0
    """Of the dataDef as it is now: each version of it has counters of its own."""
    filtered: int = 0
    """Records that a filter dropped, not among `records`."""

    def plus(self, page: "DataDefHealth", whole: "DataDefHealth") -> "DataDefHealth":
        """The counts with those of one more page. `whole`: has all fields."""
        missing = {name: self.missing.get(name, 0) + page.missing.get(name, 0) for name in whole.missing}
        return DataDefHealth(
            self.pages + 1, self.records + page.records, self.rejected + page.rejected, missing, whole.defaulted,
            whole.id,
        )  # fmt: skip

    @property
    def filled(self) -> dict[str, int]:
        """By field without a default: the records in which it was filled."""
        return {name: self.records - count for name, count in self.missing.items() if name not in self.defaulted}


class PartSigns(NamedTuple):
    """What pages showed of a part of a dataDef, such as a field or a link."""

    data_def: int
    texts: dict[str, str]
    """By code of `SIGNS`."""

    @property
    def miss(self) -> str:
        """Why it gives nothing; empty: unknown."""
        return self.texts.get(SLIP) or self.texts.get(MISS, "")


HostHealth = dict[int, dict[str, DataDefHealth]]
"""By host and dataDef."""
NOT_APPLIED = DataDefHealth(0, 0, 0, {}, frozenset())


class _Sums(Struct):
    """What is added to the counters of a run."""

    data_defs: dict[int, list[int]] = field(default_factory=dict)
    fields: dict[tuple[int, str, bool], int] = field(default_factory=dict)
    hosts: dict[tuple[int, int, str], list[int]] = field(default_factory=dict)
    """By host, dataDef and field."""

    def add(self, host: int, data_def: int, counts: RecordCounts, defaulted: frozenset[str] = frozenset()) -> None:
        sums = self.data_defs.setdefault(data_def, [0, 0, 0, 0])
        sums[0] += 1
        sums[1] += counts.records
        sums[2] += counts.rejected
        sums[3] += counts.filtered
        of_host = self.hosts.setdefault((host, data_def, ""), [0, 0, 0])
        of_host[0] += 1
        of_host[1] += counts.records
        of_host[2] += counts.rejected
        for name, missing in counts.missing:
            key = (data_def, name, name in defaulted)
            self.fields[key] = self.fields.get(key, 0) + missing
            if missing:
                self.hosts.setdefault((host, data_def, name), [0, 0, 0])[1] += missing

    def write(self, db: Database, run: int, sign: int) -> None:
        rows = [(run, data_def, *(sign * count for count in sums)) for data_def, sums in self.data_defs.items()]
        db.execute_values(_ADD, rows)
        db.execute_values(_ADD_FIELDS, [(run, *key, sign * missing) for key, missing in self.fields.items()])
        db.execute_values(
            _ADD_TO_HOSTS, [(*key, *(sign * count for count in counts)) for key, counts in self.hosts.items()]
        )


def write(commit: Commit, made: Sequence[tuple[JobOutcome, PageCounts]]) -> None:
    """Add the counts of pages, which are kept by page, too."""
    sums = _Sums()
    for outcome, page in made:
        sums.add(outcome.job.host, page.data_def_id, page.counts, page.defaulted)
    sums.write(commit.db, commit.run, 1)
    commit.db.execute_values(
        _ADD_PAGES,
        [
            (
                *(outcome.job.page_id, page.data_def_id, page.counts.records, page.counts.rejected),
                *(_to_json(page.counts), page.counts.filtered),
            )
            for outcome, page in made
        ],
    )


def write_warnings(commit: Commit, made: Sequence[tuple[JobOutcome, NewWarnings]]) -> None:
    """Keep the first warning of each field and code."""
    by_key = {
        (commit.run, data_def, warning.field, warning.code): warning.text
        for _, new in made
        for data_def, warning in new.warnings
    }
    commit.db.execute_values(_ADD_WARNINGS, [(*key, text) for key, text in by_key.items()])


def add_warning(db: Database, run: int, data_def: int, warning: PageWarning) -> None:
    """Keep a warning about a dataDef, by its id."""
    db.execute_values(_ADD_WARNINGS, [(run, data_def, warning.field, warning.code, warning.text)])


def list_warnings(db: Database, run: int) -> list[PageWarning]:
    """Those of the dataDefs as the current defs have them."""
    found = [PageWarning(*map(str, row)) for row in db.all(_WARNINGS, {"run": run})]
    return [one for one in found if one.code not in SIGNS]


def list_signs(db: Database, run: int) -> dict[tuple[str, str], PartSigns]:
    """What parts of the dataDefs gave: by dataDef and part."""
    signs: dict[tuple[str, str], PartSigns] = {}
    for name, data_def, part, code, text in db.all(_SIGNS, {"run": run}):
        signs.setdefault((str(name), str(part)), PartSigns(int(data_def), {})).texts[str(code)] = str(text)
    return signs


def was_filled_before(db: Database, run: int, data_def: int, field: str) -> bool:
    """Whether the last DONE run before with the same dataDef filled a field."""
    return db.one(_BEFORE, {"run": run, "data_def": data_def, "part": field}) is not None


def worked_before(db: Database, run: int, data_def: int, part: str) -> bool:
    """Whether a part that is not counted, such as a link, gave something in the last DONE run before."""
    return db.one(_WORKED_BEFORE, {"run": run, "data_def": data_def, "part": part}) is not None


def take_back(db: Database, run: int, jobs: str, kept: str) -> None:
    """Subtract the counts of the pages of jobs, except those of the kept dataDefs; both are JSON lists of ids."""
    parameters = {"jobs": jobs, "kept": kept}
    sums = _Sums()
    for data_def, records, rejected, missing, filtered, host in db.all(_OF_JOBS, parameters):
        by_field = tuple(orjson.loads(missing or "{}").items())
        sums.add(host, data_def, RecordCounts(records, rejected, by_field, filtered))
    if sums.data_defs:
        sums.write(db, run, -1)
        db.execute(_DELETE, parameters)


def read(db: Database, run: int) -> dict[str, DataDefHealth]:
    """By dataDef, as the current defs have it."""
    missing: dict[int, dict[str, int]] = {}
    defaulted: dict[int, set[str]] = {}
    for data_def, name, defaults, count in db.all(_FIELDS, (run,)):
        missing.setdefault(int(data_def), {})[str(name)] = int(count)
        if defaults:
            defaulted.setdefault(int(data_def), set()).add(str(name))
    return {
        str(name): DataDefHealth(
            *(pages, records, rejected, missing.get(data_def, {}), frozenset(defaulted.get(data_def, ()))),
            *(int(data_def), filtered),
        )
        for name, data_def, pages, records, rejected, filtered in db.all(_CURRENT, {"run": run})
    }


def list_pages(db: Database, run: int, most: int) -> list[tuple[int, int, int, dict[str, int]]]:
    """The last pages of a run in the order in which they ended: dataDef, records, rejected and missing ones."""
    rows = db.all(_LAST_PAGES, {"run": run, "most": most})
    return [
        (int(data_def), records, rejected, orjson.loads(missing or "{}"))
        for data_def, records, rejected, missing in rows
    ]


def read_hosts(db: Database, hosts: Iterable[int], data_defs: Mapping[str, DataDefHealth]) -> HostHealth:
    """By host and dataDef, as the current defs have it; `data_defs`: those of the run."""
    by_id = {data_def.id: (name, data_def) for name, data_def in data_defs.items()}
    found: HostHealth = {}
    for host, data_def, name, pages, records, rejected in db.all(_OF_HOSTS, (id_list(hosts),)):
        if data_def not in by_id:
            continue
        key, whole = by_id[data_def]
        if not name:  # the first row of each dataDef
            none = dict.fromkeys(whole.missing, 0)
            counts = int(pages), int(records), int(rejected)
            found.setdefault(int(host), {})[key] = DataDefHealth(*counts, none, whole.defaulted, whole.id)
        elif name in (missing := found[int(host)][key].missing):
            missing[name] = int(records)
    return found


def _to_json(counts: RecordCounts) -> str | None:
    missing = {name: count for name, count in counts.missing if count}
    return orjson.dumps(missing).decode() if missing else None
