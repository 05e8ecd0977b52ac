"""Reads the due jobs of sequences from which a lease chooses."""

from collections.abc import Mapping

from msgspec import Struct, json

from crawl_engine.model.job import JobOrigin
from crawl_engine.model.link import BODY_PATH
from crawl_engine.store.db.connector import Database, id_list, json_row


class DueJob(Struct, frozen=True, array_like=True):
    """A job to lease, with what its locator and the job it descends from say of it."""

    id: int
    url: str
    target: str | None
    depth: int
    priority: int
    attempts: int
    crashes: int
    hops: int
    origin: JobOrigin
    locator_id: int | None
    root: int
    locator: str | None
    """The name of the locator."""
    locator_request: str | None
    root_url: str
    may_leave_host: bool
    body: str | None
    """What it sends to its URL; null where others that send nothing, or the same, are the same page."""
    link: str | None
    carried: str | None
    fresh_since: float | None


_CANDIDATES = """
SELECT json_group_array(json_array(s.value, json((
    SELECT json_group_array({row})
    FROM (
        SELECT j.id, j.url, j.target, j.depth, j.priority, j.attempts, j.crashes, j.hops, j.origin,
            j.locator AS locator_id, coalesce(j.root, j.id) AS root, l.name AS locator, l.request AS locator_request,
            coalesce(r.url, j.url) AS root_url, j.may_leave_host, CASE WHEN {has_body} THEN {body} END AS body,
            j.link_request AS link, j.carried, j.fresh_since
        FROM jobs j {index} LEFT JOIN locators l ON l.id = j.locator LEFT JOIN jobs r ON r.id = j.root
        WHERE j.sequence = s.value AND j.state = 'READY' AND j.not_before IS NULL AND j.crashes {suspect}
            AND NOT EXISTS (
                SELECT 1 FROM jobs t WHERE t.state = 'TAKEN' AND coalesce(t.target, t.url) = coalesce(j.target, j.url)
                    AND t.run = j.run AND NOT ({has_body} AND t.target IS NULL AND {other_body}))
        ORDER BY j.priority DESC, j.id LIMIT +:limit) one
)))) FROM json_each(:sequences) s
"""
_HAS_BODY = "(j.target IS NULL AND (j.link_request IS NOT NULL OR (j.page_key IS NULL AND j.origin = 'locator')))"
_BODY = f"coalesce(j.link_request ->> '{BODY_PATH}', l.request ->> '$.body')"
_OTHER_BODY = f"""
coalesce(t.link_request ->> '{BODY_PATH}', (SELECT b.request ->> '$.body' FROM locators b WHERE b.id = t.locator))
    IS NOT {_BODY}
"""
"""Two bodies sent to one URL are two pages: thousands of searches go to the URL of one form."""
_TEXTS = {"row": json_row(DueJob), "has_body": _HAS_BODY, "body": _BODY, "other_body": _OTHER_BODY}
_DUE = _CANDIDATES.format(suspect="= 0", index="", **_TEXTS)
# without INDEXED BY, the planner reads all due jobs in order, to find that none is a suspect
_SUSPECTS = _CANDIDATES.format(suspect="> 0", index="INDEXED BY jobs_suspect", **_TEXTS)
_decoder = json.Decoder(list[tuple[int, list[DueJob]]], strict=False)
HAS_SUSPECT = """
EXISTS (SELECT 1 FROM jobs j INDEXED BY jobs_suspect WHERE j.sequence = s.id AND j.state = 'READY' AND j.crashes > 0)
"""
"""SQL: whether the sequence `s` has a suspect: a READY job during which a node died."""


def list_due(db: Database, limits: Mapping[int, int], *, suspects: bool = False) -> dict[int, list[DueJob]]:
    """Due jobs by sequence, best first, without those whose page another job is fetching; of each up to its limit.

    A sequence without any is left out. `suspects`: only jobs during which a node died. The rows come as one JSON value,
    because each row of a cursor would release the interpreter lock; SQLite guarantees no order within the value.
    """
    due: dict[int, list[DueJob]] = {}
    for limit in set(limits.values()):
        sequences = id_list(sequence for sequence, most in limits.items() if most == limit)
        found = db.value(_SUSPECTS if suspects else _DUE, {"sequences": sequences, "limit": limit})
        due |= {
            sequence: sorted(jobs, key=lambda job: (-job.priority, job.id))
            for sequence, jobs in _decoder.decode(found)
            if jobs
        }
    return due
