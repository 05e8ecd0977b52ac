"""Converts the entries of a run that began when a group had one entry for each step, whatever its tasks."""

from collections.abc import Iterable

from msgspec.structs import replace

from engine.store.db.connector import Database
from engine.store.tables import runs, versions
from engine.store.tables.checkpoints import GROUP_STEPS, Checkpoint
from engine.supervise.checkpoints.step_graph import APPENDER, build_step_graph


def is_earlier(entry: Checkpoint) -> bool:
    """Whether an entry of an earlier version covers a step of all tasks of its group."""
    return not entry.task and entry.step not in GROUP_STEPS


def convert_entries(db: Database, run: int, entries: Iterable[Checkpoint]) -> dict[str, Checkpoint]:
    """By key: the entries of the tasks, as their group's entries say under the version that the run still has."""
    earlier = {(entry.group, entry.step): entry for entry in entries if is_earlier(entry)}
    version = runs.get(db, run).defs_version if earlier else None
    if version is None:
        return {}
    graph = build_step_graph(versions.read(db, version), base_url=None, output=None)
    return {
        step.key: replace(
            entry, task=step.task, position=step.position, content_hash=step.content_hash,
            dependencies=step.dependencies,
        )
        for step in graph.steps
        # not of appenders: `-o` decides on their content, and the files show whether they are complete
        if step.task and step.role != APPENDER and (entry := earlier.get((step.group, step.name))) is not None
    }  # fmt: skip
