"""Publishing: one accepted set of defs becomes what a run is worked with, all of it in one transaction of the caller.

Whoever must know that the defs of a run changed is told here, and nowhere else: the start of a run, a reload and
`extract` all come by.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson

from engine.fetch.host_policy import manners_of
from engine.model.definition import Definitions
from engine.model.fingerprint import Edition
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.read import stale_pages
from engine.store.tables import events, hosts, outputs, rows, runs, sequences, versions
from engine.store.tables.events import Event, Level
from engine.store.tables.runs import Run
from engine.store.transactions import placement
from engine.supervise import outputs as declaring
from engine.supervise.checkpoints.step_graph import Blueprint
from engine.supervise.reload.diff import changed_data_defs, counted, described, relinked, stale_groups


class Adopt(Protocol):
    """Who keeps books by the defs."""

    def __call__(self, steps: Blueprint, version: int, *, renews: bool) -> None:
        """These steps are in force now, inside the open transaction. `renews`: done pages are worked anew by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What publishing came to."""

    version: int
    changed: bool
    """Whether the defs mean something else than those the run had."""
    text: str
    """A sentence for an operator."""


def publish(
    db: Database, run: Run, edition: Edition, settings: Settings, *, target: Path, flag: Path | None,
    adopt: Adopt, steps: Blueprint, old: Edition | None = None, forced: str | None = None, only_new: bool = False,
) -> Change:  # fmt: skip
    """Make `edition` the defs of a run, in the open transaction. Jobs in flight finish with what they were leased with.

    `target`: the run's folder of outputs; `flag`: the file of `-o`; `forced`: a dataDef whose pages are to be worked
    anew though it may not have changed. `adopt` is told of defs that come into force, with the `steps` of the edition.
    `old` is the edition in force, read where it is not given. Locators are seeded by whoever calls. `only_new` as in
    `outputs.declare`.
    """
    version = versions.publish(db, edition, time.time())
    definitions, seq = edition.definitions, run.seq
    renews, united = settings.on_reload == "reextract", settings.on_reload == "new_only"
    declared = declaring.declare(db, seq, target, definitions, flag, only_new=only_new, united=united)
    adopt(steps, version, renews=renews)
    if run.defs_version is None:
        runs.set_version(db, seq, version)
        return Change(version=version, changed=False, text=f"defs v{version}")
    if version == run.defs_version and forced is None:
        return Change(version=version, changed=False, text="nothing changed: the defs mean what they did")
    old = old or Edition.of(versions.read(db, run.defs_version))
    runs.set_version(db, seq, version)
    _apply_limits(db, seq, old.definitions, definitions, settings)
    sequences.set_groups(db, seq, [group.name for group in definitions.task_groups])
    left = outputs.keep(db, seq, [*declared, *_beside(db, seq, definitions, declared)])
    pages = _renew(db, run, version, old, edition, forced) if renews else 0
    text = described(old, edition, pages)
    _tell(db, seq, "INFO", f"defs v{run.defs_version} → v{version}: {text}")
    for path in left:
        _tell(db, seq, "WARNING", f"{path}: no appender writes it any more; the file stays as it is")
    _tell_kept(db, seq, old.definitions, definitions)
    return Change(version=version, changed=True, text=f"defs v{version}: {text}")


def _apply_limits(db: Database, run: int, old: Definitions, new: Definitions, settings: Settings) -> None:
    if old.hosts != new.hosts:
        for key in hosts.keys(db, run):
            manners = manners_of(new, settings, key)
            if manners != manners_of(old, settings, key):
                placement.treat(db, run, key, manners)
    for group in new.task_groups:
        before = old.task_group(group.name)
        sequences.limit(db, run, group.name, group.max_pages)
        if before is not None and before.max_pages != group.max_pages:
            sequences.reconsider(db, run, group.name)


def _beside(db: Database, run: int, new: Definitions, declared: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Outputs that `-o` asked for in an earlier start go on with it, as far as their dataDefs do."""
    flagged = {appender for appender, _ in declared} == {"flag"}
    return [
        (known.appender, known.data_def)
        for known in outputs.listed(db, run)
        if (flagged or known.appender == "flag") and new.data_def(known.data_def) is not None
    ]


def _renew(db: Database, run: Run, version: int, old: Edition, new: Edition, forced: str | None) -> int:
    """Begin the re-extraction of the pages that are stale now; returns how many, as far as the counters tell."""
    seq = run.seq
    before, after = versions.page_hashes(db, run.defs_version or 0), versions.page_hashes(db, version)
    stale = stale_groups(before, after)
    again = [p.group for p in new.pages if forced is not None and any(name == forced for name, _ in p.data_defs)]
    known, _ = runs.reextraction(db, seq)
    told = orjson.loads(known) if known else {"before": {}, "groups": []}
    done = sequences.pages_done(db, seq)
    pages = int(sum(done.get(group, 0) for group in dict.fromkeys([*stale, *again])))
    back = set(after) - set(before)  # a group that is there again may have pages of its first time
    if not pages and not any(done.get(group) for group in back) and known is None:
        return 0
    names = {*changed_data_defs(old, new), *([forced] if forced else [])}
    counts = {name: made for name, (made, _) in rows.counts(db, seq).items() if name in names}
    targets = relinked(old.definitions, new.definitions, stale)
    runs.relink(db, seq, bool(targets))
    told = {
        "found": 0, "expected": pages, "targets": targets, "unlinked": 0, "counted": 0,
        "at": 0, "upto": stale_pages.last_job(db), "lost": 0, "before": {**counts, **told["before"]},
        "groups": list(dict.fromkeys([*again, *told["groups"]])),
    }  # fmt: skip
    runs.reextract(db, seq, orjson.dumps(told).decode())
    runs.reextracted(db, seq, 0, anew=known is None)
    outputs.mark_stale(db, seq, names)
    return pages


def _tell_kept(db: Database, run: int, old: Definitions, new: Definitions) -> None:
    """Pages that nothing leads to any more keep their rows in this run: say how many."""
    gone = [group.name for group in old.task_groups if new.task_group(group.name) is None]
    done = sequences.pages_done(db, run)
    count = sum(done.get(group, 0) for group in gone)
    if count:
        names = ", ".join(gone)
        _tell(
            db, run, "WARNING", f"{counted(count, 'page')} of {names} keep their rows: nothing leads to them any more"
        )


def _tell(db: Database, run: int, level: Level, text: str) -> None:
    events.add(db, run, [Event(time.time(), level, "supervisor", "defs", text)])
