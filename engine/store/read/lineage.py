"""Reads how a job was found: the pages that led to it, and the jobs whose links were found on its own page."""

from typing import NamedTuple

from engine.store.db.connector import Database

_ANCESTORS = """
WITH RECURSIVE line (id, parent, url, depth, step) AS (
    SELECT p.id, p.parent, coalesce(p.target, p.url), p.depth, 1 FROM jobs j JOIN jobs p ON p.id = j.parent
    WHERE j.id = ?
    UNION ALL
    SELECT p.id, p.parent, coalesce(p.target, p.url), p.depth, l.step + 1 FROM line l JOIN jobs p ON p.id = l.parent
    WHERE l.step < ?)
SELECT id, url, depth FROM line ORDER BY step
"""
_CHILDREN = "SELECT id, url, state FROM jobs WHERE parent = ? ORDER BY id LIMIT +?"
_COUNT_CHILDREN = "SELECT state, count(*) FROM jobs WHERE parent = ? GROUP BY state ORDER BY state"
_MAX_ANCESTORS, _MAX_CHILDREN = 50, 200


class Ancestor(NamedTuple):
    """A job on whose page the one before it was found."""

    id: int
    url: str
    depth: int


class Child(NamedTuple):
    """A job whose link was found first on the page of another."""

    id: int
    url: str
    state: str


class Lineage(NamedTuple):
    """`ancestors`: the page with the link first, then the page with the link to that. `children`: the first ones."""

    ancestors: tuple[Ancestor, ...] = ()
    children: tuple[Child, ...] = ()
    child_counts: tuple[tuple[str, int], ...] = ()
    """Children by state."""


NO_LINEAGE = Lineage()


def read_lineage(db: Database, job: int) -> Lineage:
    """The lineage of a job, as far as this version of the program recorded it."""
    return Lineage(
        tuple(Ancestor(*row) for row in db.all(_ANCESTORS, (job, _MAX_ANCESTORS))),
        tuple(Child(*row) for row in db.all(_CHILDREN, (job, _MAX_CHILDREN))),
        tuple((str(state), int(count)) for state, count in db.all(_COUNT_CHILDREN, (job,))),
    )
