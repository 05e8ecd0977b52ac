"""Limits of the requests for pages, each one struct. Writes `page_limits`, what is reserved of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from crawl_engine.model.definition import Definitions
from crawl_engine.model.job import LeasedJob
from crawl_engine.settings.declaration import Settings
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.job import jobs, sequences
from crawl_engine.store.tables.run import metrics
from crawl_engine.store.tables.run.metrics import FetchStats


class PageLimit(Struct, frozen=True, kw_only=True):
    """A limit of the requests for pages (decision 026). SQL: `s` is a sequence, `h` its host, `l` the limit's row."""

    code: str
    """In the table, and in the terms of leased jobs."""
    text: str
    """How people read it; `{most}` and `{name}` are filled in."""
    find: Callable[[Definitions, Settings], Mapping[str, int]]
    """What the defs and the settings allow, by name."""
    name: str
    """SQL: the name that sequences under one limit share."""
    sent: str
    """SQL: the requests that were sent under the limit of `l`."""
    ends_run: bool = False
    """Whether the run ends once it is reached; else the other pages under it are SKIPPED."""


def _find_of_groups(definitions: Definitions, _: Settings) -> Mapping[str, int]:
    return {group.name: group.max_pages for group in definitions.task_groups if group.max_pages is not None}


def _find_of_run(_: Definitions, settings: Settings) -> Mapping[str, int]:
    return {} if settings.max_pages is None else {"": settings.max_pages}


LIMITS = (
    PageLimit(
        code="group",
        text="maxPages {most} of {name}",
        find=_find_of_groups,
        name="s.grp",
        sent="SELECT sum(requests) FROM metrics WHERE run = l.run AND grp = l.name",
    ),
    PageLimit(
        code="run",
        text="--max-pages {most}",
        find=_find_of_run,
        name="''",
        sent="SELECT sum(requests) FROM metrics WHERE run = l.run",
        ends_run=True,
    ),
)
"""All limits; where several are reached, the first one is named."""
_BY_CODE = {limit.code: limit for limit in LIMITS}

CODES_OF_SEQUENCE = " || ".join(
    f"CASE WHEN EXISTS (SELECT 1 FROM page_limits l WHERE l.run = s.run AND l.code = '{limit.code}' "
    f"AND l.name = {limit.name} AND l.most IS NOT NULL) THEN '{limit.code} ' ELSE '' END"
    for limit in LIMITS
)
"""SQL: the codes of the limits that a sequence is under, each with a space behind it."""
_ROOM = "SELECT l.run, l.code, l.name, l.most, l.reserved + coalesce(({sent}), 0) AS requests FROM {source}"
_OF_SEQUENCE = """
sequences s CROSS JOIN hosts h ON h.id = s.host
CROSS JOIN page_limits l ON l.run = s.run AND l.code = '{code}' AND l.name = {name}
WHERE s.id = :sequence AND s.kind = 'page' AND l.most IS NOT NULL
"""
_OF_RUN = "page_limits l WHERE l.run = :run AND l.code = '{code}' AND l.most IS NOT NULL"


def _compose(source: str) -> str:
    return " UNION ALL ".join(
        _ROOM.format(sent=limit.sent, source=source.format(code=limit.code, name=limit.name)) for limit in LIMITS
    )


_ROOMS_OF_SEQUENCE, _ROOMS_OF_RUN = _compose(_OF_SEQUENCE), _compose(_OF_RUN)
_MEMBERS = " UNION ALL ".join(
    f"SELECT s.id, l.code, l.name FROM sequences s CROSS JOIN hosts h ON h.id = s.host "
    f"CROSS JOIN page_limits l ON l.run = s.run AND l.code = '{limit.code}' AND l.name = {limit.name} "
    f"WHERE s.run = :run AND l.most IS NOT NULL AND s.kind = 'page'"
    for limit in LIMITS
    if not limit.ends_run
)
_HELD = """
SELECT coalesce(sum(s.taken), 0) FROM page_limits l CROSS JOIN sequences s ON s.run = l.run
CROSS JOIN hosts h ON h.id = s.host
WHERE l.run = ? AND l.code = ? AND l.name = ? AND l.name = {name} AND s.kind = 'page'
"""
_CHANGED = """
SELECT s.id FROM page_limits l CROSS JOIN sequences s ON s.run = l.run CROSS JOIN hosts h ON h.id = s.host
WHERE l.run = ? AND l.code = ? AND l.name = ? AND l.name = {name}
"""
_SET = """
INSERT INTO page_limits (run, code, name, most) {values}
ON CONFLICT (run, code, name) DO UPDATE SET most = excluded.most
"""
_NAME = "CASE v.code {} END".format(" ".join(f"WHEN '{limit.code}' THEN {limit.name}" for limit in LIMITS))
_RESERVE = f"""
WITH v (sequence, code, requests) AS ({{values}})
UPDATE page_limits SET reserved = reserved + t.requests FROM (
    SELECT s.run, v.code, {_NAME} AS name, sum(v.requests) AS requests FROM v
    CROSS JOIN sequences s ON s.id = v.sequence CROSS JOIN hosts h ON h.id = s.host GROUP BY 1, 2, 3) t
WHERE page_limits.run = t.run AND page_limits.code = t.code AND page_limits.name = t.name
"""
_UNSETTLED = f"""
SELECT count(*) FROM jobs j CROSS JOIN sequences s ON s.id = j.sequence CROSS JOIN hosts h ON h.id = s.host
WHERE j.state = 'TAKEN' AND j.node = ? AND s.kind = 'page' AND {CODES_OF_SEQUENCE} <> ''
"""


class Room(Struct, frozen=True):
    """A limit of a run, and the requests that count: those sent, and those that may still be."""

    run: int
    code: str
    name: str
    most: int
    requests: int

    @property
    def left(self) -> int:
        """Requests that may still be reserved."""
        return max(0, self.most - self.requests)

    @property
    def limit(self) -> PageLimit:
        return _BY_CODE[self.code]

    def __str__(self) -> str:
        return self.limit.text.format(most=self.most, name=self.name)


def apply(db: Database, run: int, definitions: Definitions, settings: Settings) -> None:
    """Set the limits of a run; pages that a changed one skipped are queued again.

    A limit that is lifted keeps its row, for the jobs that nodes hold.
    """
    before = {(room.code, room.name): room.most for room in list_rooms(db, run)}
    now = {(limit.code, name): most for limit in LIMITS for name, most in limit.find(definitions, settings).items()}
    changed = [(code, name) for code, name in before | now if before.get((code, name)) != now.get((code, name))]
    for code, name in changed:
        set_most(db, run, code, name, now.get((code, name)))
        if not _BY_CODE[code].ends_run:
            found = db.column(_CHANGED.format(name=_BY_CODE[code].name), (run, code, name))
            sequences.recheck_skipped(db, found)


def set_most(db: Database, run: int, code: str, name: str, most: int | None) -> None:
    """Allow so many requests; None: any number."""
    db.execute_values(_SET, [(run, code, name, most)])


def read_rooms(db: Database, sequence: int) -> list[Room]:
    """What the limits of a sequence leave, in the order of `LIMITS`."""
    return db.rows(Room, _ROOMS_OF_SEQUENCE, {"sequence": sequence})


def list_rooms(db: Database, run: int) -> list[Room]:
    """What all limits of a run leave."""
    return db.rows(Room, _ROOMS_OF_RUN, {"run": run})


def list_members(db: Database, run: int) -> list[tuple[int, str, str]]:
    """The sequences under limits that do not end the run, each with the code and the name of such a limit."""
    return db.all(_MEMBERS, {"run": run})


def is_over(db: Database, room: Room) -> bool:
    """Whether all requests of a limit have been sent: none that is reserved can be given back."""
    if room.left:
        return False
    held = db.value(_HELD.format(name=room.limit.name), (room.run, room.code, room.name))
    return room.requests - int(held) >= room.most


def find_end(db: Database, run: int) -> Room | None:
    """The limit that ends the run now."""
    return next((room for room in list_rooms(db, run) if room.limit.ends_run and is_over(db, room)), None)


def reserve(db: Database, sequence: int, codes: Iterable[str], requests: int) -> None:
    """Count requests of a sequence under these limits before they are sent."""
    db.execute_values(_RESERVE, [(sequence, code, requests) for code in codes])


def settle(db: Database, done: Sequence[LeasedJob]) -> None:
    """End the reservations of jobs whose outcome is known: what they sent counts as sent."""
    counts: dict[tuple[int, str], int] = {}
    for job in done:
        for code in job.terms.limits:
            counts[job.sequence, code] = counts.get((job.sequence, code), 0) - 1
    db.execute_values(_RESERVE, [(*place, count) for place, count in counts.items()])


def reserve_next(db: Database, job: LeasedJob) -> bool:
    """Count one more request of a job with a limit as sent; False: there is no room, or its lease is lost."""
    if not jobs.is_held(db, job) or not all(room.left for room in read_rooms(db, job.sequence)):
        return False
    metrics.add(db, job.run, [FetchStats(job.group, 0, 0.0, 0, 0, requests=1)])
    return True


def count_unsettled(db: Database, node: int) -> int:
    """Requests that are counted for the jobs a node holds, whether it sent them or not."""
    return int(db.value(_UNSETTLED, (node,)))
