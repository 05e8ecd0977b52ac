"""What an operator is asked before a command that cannot be taken back."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from crawl_console.format import plural
from crawl_engine.store.db.filter import JobFilter
from crawl_engine.store.read.snapshot import Snapshot


class Confirmation(NamedTuple):
    title: str
    lines: Sequence[str]
    yes: str
    """The label of the button that does it."""
    destructive: bool = False


def cancel_question(snapshot: Snapshot) -> Confirmation:
    jobs = snapshot.jobs
    lines = [
        f"{plural(jobs['taken'], 'job')} in flight may finish within the grace time.",
        f"{plural(jobs['ready'], 'job')} stay ready; every committed row reaches the files.",
        "`crawl-console run` resumes it.",
    ]
    return Confirmation("Cancel the run", lines, "Cancel the run")


def kill_run_question(snapshot: Snapshot, instead: str) -> Confirmation:
    """`instead`: how it is cancelled gracefully."""
    lines = [
        f"All processes stop immediately; {plural(sum(_in_flight(snapshot).values()), 'job')} in flight are lost.",
        "When the run resumes, they run again, and rows not yet in the files are written.",
        instead,
    ]
    return Confirmation("Kill the run", lines, "Kill the run", True)


def kill_nodes_question(snapshot: Snapshot, nodes: Sequence[str]) -> Confirmation:
    in_flight = _in_flight(snapshot)
    count = sum(in_flight.get(name, 0) for name in nodes)
    lines = [
        f"{', '.join(nodes)} {'stops' if len(nodes) == 1 else 'stop'} immediately.",
        f"{plural(count, 'job')} in flight are lost; other nodes run them again.",
        "Committed rows are safe. A new node replaces each.",
    ]
    return Confirmation(f"Kill {plural(len(nodes), 'node')}", lines, "Kill", True)


def retry_question(count: int, job_filter: JobFilter, *, marked: bool = False) -> Confirmation:
    text = job_filter.text or " ".join(f"state:{state}" for state in job_filter.states.include)
    which = "marked" if marked else f"that match {text}"
    lines = [f"{plural(count, 'job')} {which} become READY again, as new; their rows are removed."]
    return Confirmation(f"Retry {plural(count, 'job')}", lines, f"Retry {count}")


def retry_job_question(job: int) -> Confirmation:
    return Confirmation(f"Retry job {job}", ["It becomes READY again, as new; its rows are removed."], "Retry")


def exclude_question(count: int, job_filter: JobFilter, undo: str) -> Confirmation:
    """`undo`: how it is taken back."""
    lines = [f"{plural(count, 'queued job')} that match {job_filter.text} become SKIPPED.", undo]
    return Confirmation(f"Exclude {plural(count, 'queued job')}", lines, f"Exclude {count}")


def _in_flight(snapshot: Snapshot) -> Mapping[str, int]:
    return {node.id: node.in_flight for node in snapshot.nodes}
