"""Reads what a comparison of two runs needs: rows, and what became of their pages."""

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

import orjson

from engine.model.fingerprint import ChangeScope
from engine.store.db.connector import Database, id_list
from engine.store.read.job_range import find_first_id
from engine.store.tables.row import rows

JUDGED, UNJUDGED, NOT_REACHED = "judged", "unjudged", "not reached"
"""What became in the later run of a page that gave rows in the earlier one. Not reached: what it holds is unknown."""

_EARLIER = """
SELECT seq FROM runs r WHERE seq < ? AND EXISTS (
    SELECT 1 FROM row_counts WHERE run = r.seq AND data_def = ? AND rows > 0)
ORDER BY state = 'DONE' DESC, seq DESC LIMIT 1
"""
_IS_SEEDED = "SELECT seeded_version IS defs_version FROM runs WHERE seq = ?"
_IDS = "SELECT id FROM data_defs WHERE name = ?"
_ROWS = """
SELECT id, job, digest, CASE WHEN :with_text OR coalesce(length(digest), 0) = 0 THEN CAST(data AS TEXT) END FROM rows
WHERE id > :after AND id < :end AND run = :run AND data_def IN (SELECT value FROM json_each(:data_defs))
ORDER BY id LIMIT +:limit
"""
_TEXTS = "SELECT id, CAST(data AS TEXT) FROM rows WHERE id IN (SELECT value FROM json_each(?))"

_IS_GONE = "(j.state = 'SKIPPED' AND j.reason IN ('HTTP 404 (gone)', 'HTTP 410 (gone)'))"
# the page of a plain locator may have been reached by a link in the other run, and the other way round
_SAME_PAGES = """
SELECT id FROM jobs WHERE run = {run} AND identity IN ({job}.identity, {job}.page_key)
UNION SELECT id FROM jobs WHERE run = {run} AND page_key = coalesce({job}.page_key, {job}.identity)
"""
_REJECTED = "coalesce((SELECT records FROM rejections WHERE job = {job}.id AND data_def = :name), 0)"
_VERDICTS = f"""
SELECT e.id, h.key, es.grp, count(j.id), coalesce(sum({_IS_GONE} OR (j.state = 'DONE'
    AND {_REJECTED.format(job="j")} <= {_REJECTED.format(job="e")} AND EXISTS (
        SELECT 1 FROM page_defs p CROSS JOIN json_each(p.data_defs) unit
        WHERE p.version = j.defs AND p.grp = s.grp AND unit.value IN (SELECT value FROM json_each(:data_defs))))), 0)
FROM json_each(:jobs) listed CROSS JOIN jobs e ON e.id = listed.value
CROSS JOIN sequences es ON es.id = e.sequence CROSS JOIN hosts h ON h.id = es.host
LEFT JOIN jobs j ON j.id IN ({_SAME_PAGES.format(run=":run", job="e")}) LEFT JOIN sequences s ON s.id = j.sequence
GROUP BY e.id
"""
"""A record that is rejected now may be the row: its page must have rejected as many before."""
_SEQUENCES = """
SELECT s.id, h.key, s.kind, s.grp,
    s.ready + s.delayed + s.taken + s.incomplete > 0 OR (s.failed > 0 AND s.kind <> 'file'), s.skipped > 0
FROM sequences s JOIN hosts h ON h.id = s.host
WHERE s.run = ? AND s.kind IN ('page', 'sitemap', 'extract', 'file')
"""
_IN_EARLIER = f"""
EXISTS (SELECT 1 FROM jobs e WHERE e.id IN ({_SAME_PAGES.format(run=":earlier", job="j")}) AND e.state = 'DONE')
"""
# + hides the column from the planner: the identities of a run are an index, its sequences are none
_NEW_UNJUDGED = f"""
SELECT DISTINCT j.sequence FROM jobs j WHERE j.run = :run AND +j.sequence IN (SELECT value FROM json_each(:sequences))
    AND j.state IN ('READY', 'TAKEN', 'INCOMPLETE', 'FAILED') AND NOT {_IN_EARLIER}
"""
_IS_LIMITED = "(j.reason GLOB 'maxPages *' OR j.reason GLOB 'excluded by *' OR j.reason GLOB 'stopped by *')"
_SKIPPED = f"""
SELECT DISTINCT j.sequence FROM json_each(:sequences) listed
CROSS JOIN jobs j INDEXED BY jobs_skipped ON j.sequence = listed.value AND j.state = 'SKIPPED'
WHERE NOT {_IS_GONE} AND j.document IS NULL AND CASE WHEN :fixed
    THEN {_IS_LIMITED} AND NOT {_IN_EARLIER} ELSE {_IS_LIMITED} OR {_IN_EARLIER} END
"""
"""Skipped without an answer: by a limit or an operator, or by a rule that did not apply in the earlier run."""
_BATCH_ROWS = 500


class ComparedRow(NamedTuple):
    """A row of a run; without `text` where nobody asked for it and it has a digest."""

    id: int
    job: int
    digest: bytes | None
    text: str | None


def find_earlier_run(db: Database, run: int, data_def: str) -> int | None:
    """The last run before that gave rows of a dataDef: one that is DONE if there is any. None: there is none."""
    seq = db.value(_EARLIER, (run, data_def))
    return None if seq is None else int(seq)


def is_seeded(db: Database, run: int) -> bool:
    """Whether all locators of a run's defs have jobs."""
    return bool(db.value(_IS_SEEDED, (run,)))


def iter_rows(db: Database, run: int, data_def: str, *, with_text: bool) -> Iterator[list[ComparedRow]]:
    """The rows of a dataDef of a run in batches, in the order of their ids."""
    last = rows.last_id_of_all_runs(db)
    first = find_first_id(db, run, last, table="rows")
    parameters = {
        "run": run, "end": find_first_id(db, run + 1, last, table="rows"), "data_defs": _data_def_ids(db, data_def),
        "with_text": with_text, "after": first - 1, "limit": _BATCH_ROWS,
    }  # fmt: skip
    while batch := [ComparedRow(*row) for row in db.all(_ROWS, parameters)]:
        parameters["after"] = batch[-1].id
        yield batch


def read_texts(db: Database, ids: Sequence[int]) -> dict[int, str]:
    """The JSON of rows by id."""
    return dict(db.all(_TEXTS, (id_list(ids),)))


def judge_pages(
    db: Database, run: int, data_def: str, jobs: Sequence[int], fixed_groups: Container[str] = ()
) -> list[tuple[int, str, str]]:
    """What became in a run of the pages of an earlier run's jobs: the job, its verdict, its site.

    A page is judged if it is DONE with the dataDef and without a record that was not rejected before, or if it is gone.
    Pages of `fixed_groups` hold what they held: of these, one that was not reached is only unjudged.
    """
    parameters = {
        "run": run, "name": data_def, "jobs": id_list(jobs), "data_defs": _data_def_ids(db, data_def)
    }  # fmt: skip
    pages = []
    for job, host, group, same, judged in db.all(_VERDICTS, parameters):
        verdict = JUDGED if same and judged == same else UNJUDGED
        if not same and group not in fixed_groups:
            verdict = NOT_REACHED
        pages.append((job, verdict, site_of(host)))
    return pages


def find_unsure_sites(db: Database, run: int, earlier: int, scope: ChangeScope) -> set[str]:
    """The sites with a page that was not judged in a run, and that may hold or lead to a row of another page."""
    sequences = db.all(_SEQUENCES, (run,))
    if any(kind == "file" and has_unjudged for _, _, kind, _, has_unjudged, _ in sequences):
        return {site_of(host) for _, host, *_ in sequences}  # rows of any page may wait for a file, wherever that is
    sites, unsure = dict[int, str](), set[int]()
    unjudged_fixed, skipped, skipped_fixed = list[int](), list[int](), list[int]()
    for sequence, host, kind, group, has_unjudged, has_skipped in sequences:
        if kind != "sitemap" and group in scope.irrelevant:
            continue
        is_fixed = kind == "page" and group in scope.fixed
        sites[sequence] = site_of(host)
        if has_unjudged and is_fixed:
            unjudged_fixed.append(sequence)
        elif has_unjudged:
            unsure.add(sequence)
        if has_skipped and kind in ("page", "sitemap"):
            (skipped_fixed if is_fixed else skipped).append(sequence)
    parameters = {"run": run, "earlier": earlier}
    if unjudged_fixed:
        unsure.update(id_ for (id_,) in db.all(_NEW_UNJUDGED, parameters | {"sequences": id_list(unjudged_fixed)}))
    for fixed, listed in ((False, skipped), (True, skipped_fixed)):
        if listed:
            asked = {"earlier": earlier, "fixed": fixed, "sequences": id_list(listed)}
            unsure.update(id_ for (id_,) in db.all(_SKIPPED, asked))
    return {sites[sequence] for sequence in unsure}


def site_of(host_key: str) -> str:
    """The host of a `name:port`, without a leading `www.`: rows move between the pages of one site."""
    return host_key.rpartition(":")[0].removeprefix("www.")


def _data_def_ids(db: Database, name: str) -> str:
    return orjson.dumps([id_ for (id_,) in db.all(_IDS, (name,))]).decode()
