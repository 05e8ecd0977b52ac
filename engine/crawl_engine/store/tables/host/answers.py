"""Writes how hosts answered: which of their last answers refused the crawler, and how many did."""

from collections.abc import Iterable
from typing import NamedTuple

from crawl_engine.store.db.connector import Database

LAST_ANSWERS = 20
"""How many answers of a host count."""
_MARK = 1 << LAST_ANSWERS
"""The bit before the oldest of so many answers."""

# a host that never refused has no answers noted: as many of its pages stand for them
_NOTED = f"""
CASE WHEN h.answers > 1 THEN h.answers
    ELSE 1 << min({LAST_ANSWERS}, (
        SELECT CAST(total(done) AS INTEGER) FROM sequences WHERE host = h.id AND kind = 'page')) END
"""
_ADD = f"""
WITH a (host, answers, refusals, bits) AS ({{values}}), n (host, refusals, noted) AS (
    SELECT h.id, a.refusals, {_NOTED} << a.answers | a.bits FROM a CROSS JOIN hosts h ON h.id = a.host
    WHERE a.refusals > 0 OR h.answers > 1)
UPDATE hosts SET blocked = blocked + n.refusals,
    answers = CASE WHEN n.noted < {2 * _MARK} THEN n.noted ELSE n.noted & {_MARK - 1} | {_MARK} END
FROM n WHERE hosts.id = n.host
"""


class Answer(NamedTuple):
    host: int
    is_first: bool
    """Whether the page was asked for the first time. Others say little of the host: they are for pages it refused."""
    refused: bool


def add(db: Database, answers: Iterable[Answer]) -> None:
    """Note answers, in their order."""
    by_host: dict[int, list[Answer]] = {}
    for answer in answers:
        by_host.setdefault(answer.host, []).append(answer)
    db.execute_values(_ADD, [_to_row(host, of_host) for host, of_host in by_host.items()])


def _to_row(host: int, answers: list[Answer]) -> tuple[int, int, int, int]:
    newest = [answer.refused for answer in answers if answer.is_first][-LAST_ANSWERS:]
    bits = sum(refused << place for place, refused in enumerate(reversed(newest)))
    return host, len(newest), sum(answer.refused for answer in answers), bits


def count_recent(db: Database, host: int) -> tuple[int, int]:
    """The host's last answers to first requests: their number, at most 20, and that of those that refused."""
    noted = int(db.value(f"SELECT {_NOTED} FROM hosts h WHERE h.id = ?", (host,)) or 1)
    count = noted.bit_length() - 1
    return count, noted.bit_count() - 1
