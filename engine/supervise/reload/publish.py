"""Publishing: one accepted set of defs becomes what a run is worked with, all of it in one transaction of the caller.

Whoever must know that the defs of a run changed is told here, and nowhere else: the start of a run, a reload and
`extract` all come by.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson

from engine.fetch.host_policy import resolve_host_policy
from engine.model.definition import Definitions
from engine.model.fingerprint import PreparedDefs
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.read import stale_pages
from engine.store.tables import events, hosts, outputs, rows, runs, sequences, versions
from engine.store.tables.events import Event, Level
from engine.store.tables.runs import Run
from engine.store.transactions import placement
from engine.supervise import outputs as declaring
from engine.supervise.checkpoints.step_graph import StepGraph
from engine.supervise.reload.diff import changed_data_defs, describe_changes, pluralize, relinked_groups, stale_groups


class PublishHook(Protocol):
    """Who keeps books by the defs."""

    def __call__(self, graph: StepGraph, version: int, *, reextract: bool) -> None:
        """These steps are in force now, inside the open transaction. `renews`: done pages are worked anew by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """What publishing came to."""

    version: int
    changed: bool
    """Whether the defs mean something else than those the run had."""
    text: str
    """A sentence for an operator."""


def publish_defs(
    db: Database, run: Run, edition: PreparedDefs, settings: Settings, *, output_dir: Path, output_file: Path | None,
    on_publish: PublishHook, graph: StepGraph, current: PreparedDefs | None = None, forced_data_def: str | None = None, only_new: bool = False,
) -> PublishResult:  # fmt: skip
    """Make `edition` the defs of a run, in the open transaction. Jobs in flight finish with what they were leased with.

    `target`: the run's folder of outputs; `flag`: the file of `-o`; `forced`: a dataDef whose pages are to be worked
    anew though it may not have changed. `adopt` is told of defs that come into force, with the `steps` of the edition.
    `old` is the edition in force, read where it is not given. Locators are seeded by whoever calls. `only_new` as in
    `outputs.declare`.
    """
    version = versions.publish(db, edition, time.time())
    definitions, seq = edition.definitions, run.seq
    renews, united = settings.on_reload == "reextract", settings.on_reload == "new_only"
    declared = declaring.declare_outputs(
        db, seq, output_dir, definitions, output_file, only_new=only_new, merge_columns=united
    )
    on_publish(graph, version, reextract=renews)
    if run.defs_version is None:
        runs.set_version(db, seq, version)
        return PublishResult(version=version, changed=False, text=f"defs v{version}")
    if version == run.defs_version and forced_data_def is None:
        return PublishResult(version=version, changed=False, text="nothing changed: the defs mean what they did")
    current = current or PreparedDefs.from_definitions(versions.read(db, run.defs_version))
    runs.set_version(db, seq, version)
    _apply_limits(db, seq, current.definitions, definitions, settings)
    sequences.set_groups(db, seq, [group.name for group in definitions.task_groups])
    left = outputs.prune(db, seq, [*declared, *_retained_outputs(db, seq, definitions, declared)])
    pages = _begin_reextraction(db, run, version, current, edition, forced_data_def) if renews else 0
    text = describe_changes(current, edition, pages)
    _add_event(db, seq, "INFO", f"defs v{run.defs_version} → v{version}: {text}")
    for path in left:
        _add_event(db, seq, "WARNING", f"{path}: no appender writes it any more; the file stays as it is")
    _warn_kept_pages(db, seq, current.definitions, definitions)
    return PublishResult(version=version, changed=True, text=f"defs v{version}: {text}")


def _apply_limits(db: Database, run: int, old: Definitions, new: Definitions, settings: Settings) -> None:
    if old.hosts != new.hosts:
        for key in hosts.list_keys(db, run):
            manners = resolve_host_policy(new, settings, key)
            if manners != resolve_host_policy(old, settings, key):
                placement.apply_host_policy(db, run, key, manners)
    for group in new.task_groups:
        before = old.task_group(group.name)
        sequences.set_max_pages(db, run, group.name, group.max_pages)
        if before is not None and before.max_pages != group.max_pages:
            sequences.recheck_skipped(db, run, group.name)


def _retained_outputs(
    db: Database, run: int, new: Definitions, declared: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Outputs that `-o` asked for in an earlier start go on with it, as far as their dataDefs do."""
    flagged = {appender for appender, _ in declared} == {"flag"}
    return [
        (known.appender, known.data_def)
        for known in outputs.list_outputs(db, run)
        if (flagged or known.appender == "flag") and new.data_def(known.data_def) is not None
    ]


def _begin_reextraction(
    db: Database, run: Run, version: int, old: PreparedDefs, new: PreparedDefs, forced: str | None
) -> int:
    """Begin the re-extraction of the pages that are stale now; returns how many, as far as the counters tell."""
    seq = run.seq
    before, after = versions.get_page_hashes(db, run.defs_version or 0), versions.get_page_hashes(db, version)
    stale = stale_groups(before, after)
    again = [p.group for p in new.groups if forced is not None and any(name == forced for name, _ in p.data_defs)]
    known, _ = runs.get_reextraction(db, seq)
    told = orjson.loads(known) if known else {"before": {}, "groups": []}
    done = sequences.count_done_pages(db, seq)
    pages = int(sum(done.get(group, 0) for group in dict.fromkeys([*stale, *again])))
    back = set(after) - set(before)  # a group that is there again may have pages of its first time
    if not pages and not any(done.get(group) for group in back) and known is None:
        return 0
    names = {*changed_data_defs(old, new), *([forced] if forced else [])}
    counts = {name: made for name, (made, _) in rows.counts(db, seq).items() if name in names}
    targets = relinked_groups(old.definitions, new.definitions, stale)
    runs.set_relinking(db, seq, bool(targets))
    told = {
        "found": 0, "expected": pages, "targets": targets, "unlinked": 0, "counted": 0,
        "at": 0, "upto": stale_pages.last_job_id(db), "lost": 0, "before": {**counts, **told["before"]},
        "groups": list(dict.fromkeys([*again, *told["groups"]])),
    }  # fmt: skip
    runs.set_reextraction(db, seq, orjson.dumps(told).decode())
    runs.add_reextracted(db, seq, 0, reset=known is None)
    outputs.mark_stale(db, seq, names)
    return pages


def _warn_kept_pages(db: Database, run: int, old: Definitions, new: Definitions) -> None:
    """Pages that nothing leads to any more keep their rows in this run: say how many."""
    gone = [group.name for group in old.task_groups if new.task_group(group.name) is None]
    done = sequences.count_done_pages(db, run)
    count = sum(done.get(group, 0) for group in gone)
    if count:
        names = ", ".join(gone)
        _add_event(
            db, run, "WARNING", f"{pluralize(count, 'page')} of {names} keep their rows: nothing leads to them any more"
        )


def _add_event(db: Database, run: int, level: Level, text: str) -> None:
    events.add(db, run, [Event(time.time(), level, "supervisor", "defs", text)])
