"""Writes how hosts answered: `host_answers`, `host_latencies`, `host_speeds`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import orjson
from msgspec import Struct, field

from crawl_engine.model.host import HostState
from crawl_engine.store.db.connector import Database, id_list

NO_ANSWER = 0
"""In place of a status: the request got no answer."""

_COUNT = """
INSERT INTO host_answers (host, status, answers) {values}
ON CONFLICT (host, status) DO UPDATE SET answers = host_answers.answers + excluded.answers
"""
_ADD_LATENCIES = """
INSERT INTO host_latencies (host, bucket, answers) {values}
ON CONFLICT (host, bucket) DO UPDATE SET answers = host_latencies.answers + excluded.answers
"""
_ADD_BYTES = """
INSERT INTO host_speeds (host, run, bytes, measured_at) {values}
ON CONFLICT (host) DO UPDATE SET bytes = host_speeds.bytes + excluded.bytes, measured_at = excluded.measured_at
"""
_MEASURED = "SELECT host FROM host_speeds WHERE run = ? AND measured_at BETWEEN ? AND ?"
_LATENCIES = "SELECT host, bucket, answers FROM host_latencies WHERE host IN (SELECT value FROM json_each(?))"
_ANSWERS_BY_STATUS = """
SELECT a.status, sum(a.answers) FROM hosts h CROSS JOIN host_answers a ON a.host = h.id WHERE h.run = ?
GROUP BY a.status
"""
_ANSWERS = """
SELECT host, status, answers FROM host_answers WHERE host IN (SELECT value FROM json_each(?)) ORDER BY host, status
"""
_SET_SPEEDS = """
WITH s (host, p50, p95, recent) AS ({values})
UPDATE host_speeds SET p50 = s.p50, p95 = s.p95, recent_p50 = s.recent FROM s WHERE host_speeds.host = s.host
"""
_SET_ETAS = """
INSERT INTO host_speeds (host, run, eta) {values} ON CONFLICT (host) DO UPDATE SET eta = excluded.eta
"""
_SET_STATES = """
INSERT INTO host_speeds (host, run, state, pages_per_s, silent_since) {values}
ON CONFLICT (host) DO UPDATE SET
    state = excluded.state, pages_per_s = excluded.pages_per_s, silent_since = excluded.silent_since
"""
_CLEAR_ETAS = """
UPDATE host_speeds SET eta = NULL
WHERE run = ? AND eta IS NOT NULL AND host NOT IN (SELECT value FROM json_each(?))
"""


class HostTraffic(Struct):
    """What a host answered since the last flush: the histogram of its latency, and the bytes of its bodies."""

    latencies: dict[int, int] = field(default_factory=dict)
    bytes: int = 0


class HostNow(NamedTuple):
    """How a host is, its pages a second, and since when it is silent, in boot-time seconds."""

    state: HostState
    pages_per_s: float
    silent_since: float | None


class HostSpeed(NamedTuple):
    """How fast a host answers, in seconds; `recent`: the p50 of each of the last intervals, None without answers."""

    host: int
    p50: float | None
    p95: float | None
    recent: Sequence[float | None]


def count_answers(db: Database, answers: Mapping[tuple[int, int], int]) -> None:
    db.execute_values(_COUNT, [(host, status, count) for (host, status), count in answers.items()])


def add_traffic(db: Database, run: int, traffic: Mapping[int, HostTraffic], now: float) -> None:
    """Add to the histograms and bytes of hosts. `now`: boot-time seconds."""
    latencies = [
        (host, bucket, count) for host, of_host in traffic.items() for bucket, count in of_host.latencies.items()
    ]
    db.execute_values(_ADD_LATENCIES, latencies)
    db.execute_values(_ADD_BYTES, [(host, run, of_host.bytes, now) for host, of_host in traffic.items()])


def forget_times(db: Database) -> None:
    """After a reboot: earlier boot-time seconds are meaningless."""
    db.execute("UPDATE host_speeds SET measured_at = 0 WHERE measured_at > 0")


def list_measured(db: Database, run: int, since: float, now: float) -> dict[int, dict[int, int]]:
    """By host: the histograms of those measured between two boot-time seconds."""
    hosts = db.column(_MEASURED, (run, since, now))
    histograms: dict[int, dict[int, int]] = {host: {} for host in hosts}
    for host, bucket, count in db.all(_LATENCIES, (id_list(hosts),)):
        histograms[int(host)][int(bucket)] = int(count)
    return histograms


def answers_by_status(db: Database, run: int) -> dict[int, int]:
    return dict(db.all(_ANSWERS_BY_STATUS, (run,)))


def list_answers(db: Database, hosts: Iterable[int]) -> dict[int, dict[int, int]]:
    """By host: its answers by status."""
    answers: dict[int, dict[int, int]] = {}
    for host, status, count in db.all(_ANSWERS, (id_list(hosts),)):
        answers.setdefault(int(host), {})[int(status)] = int(count)
    return answers


def set_speeds(db: Database, speeds: Iterable[HostSpeed]) -> None:
    rows = [(s.host, s.p50, s.p95, orjson.dumps(list(s.recent)).decode()) for s in speeds]
    db.execute_values(_SET_SPEEDS, rows)


def set_states(db: Database, run: int, states: Mapping[int, HostNow]) -> None:
    """Record how hosts are."""
    db.execute_values(
        _SET_STATES, [(host, run, now.state, now.pages_per_s, now.silent_since) for host, now in states.items()]
    )


def forget_latencies(db: Database, hosts: Iterable[int]) -> None:
    """Empty the histograms of hosts that have not answered for a while."""
    db.execute("DELETE FROM host_latencies WHERE host IN (SELECT value FROM json_each(?))", (id_list(hosts),))


def set_etas(db: Database, run: int, etas: Mapping[int, float]) -> None:
    """Record the estimated seconds until the pages of hosts have ended; clear those of all other hosts of the run."""
    db.execute(_CLEAR_ETAS, (run, id_list(etas)))
    db.execute_values(_SET_ETAS, [(host, run, eta) for host, eta in etas.items()])
