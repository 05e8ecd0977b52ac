"""Publishes a set of defs for a run, within one transaction of the caller.

The start of a run, a reload and `extract` all use it: it is the only place where the defs of a run change.
"""

import time
from collections import Counter
from pathlib import Path

from msgspec import Struct

from crawl_engine.errors import plural
from crawl_engine.model.definition import Definitions
from crawl_engine.model.fingerprint import PreparedDefs
from crawl_engine.robots.host_policy import resolve_host_policy
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read import stale_pages
from crawl_engine.store.tables.host import hosts, refusals
from crawl_engine.store.tables.job import results, sequences
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.run import events, page_limits, runs, versions
from crawl_engine.store.tables.run.runs import Run, StaleSearch
from crawl_engine.store.transactions import logins, placement, statistics
from crawl_engine.supervise.checkpoints.step_graph import StepGraph
from crawl_engine.supervise.checkpoints.tracker import publish_steps
from crawl_engine.supervise.outputs import declare_outputs
from crawl_engine.supervise.reload.diff import (
    changed_data_defs,
    describe_changes,
    find_stale_groups,
    relinked_groups,
    stale_groups,
)
from crawl_engine.supervise.run_context import RunContext


class PublishResult(Struct, frozen=True, kw_only=True):
    version: int
    changed: bool
    """Whether the meaning of the defs changed."""
    text: str
    """A sentence for the operator."""


def publish_defs(
    context: RunContext,
    defs: PreparedDefs,
    *,
    output_file: Path | None,
    graph: StepGraph,
    current: PreparedDefs | None = None,
    forced_data_def: str | None = None,
    only_new: bool = False,
) -> PublishResult:
    """Make `defs` the defs of a run, in the open transaction. Jobs in flight finish with the version of their lease.

    `context` has the row of the run as it is now. `output_file` is the file of `-o`. The pages of `forced_data_def` are
    re-extracted even if it did not change. `graph` has the steps of `defs`. `current` has the defs in
    force; None: they are read. The caller seeds the locators. `only_new` is as in `declare_outputs`.
    """
    db, run, settings = context.db, context.row, context.settings
    version = versions.publish(db, defs, time.time())
    definitions, seq = defs.definitions, run.seq
    reextract, merge_columns = settings.on_reload == "reextract", settings.on_reload == "new_only"
    declared = declare_outputs(
        db, seq, context.output_dir, definitions, output_file, only_new=only_new, merge_columns=merge_columns
    )
    publish_steps(db, seq, graph, version, reextract=reextract)
    if run.defs_version is None:
        runs.set_version(db, seq, version)
        return PublishResult(version=version, changed=False, text=f"defs v{version}")
    if version == run.defs_version and forced_data_def is None:
        return PublishResult(version=version, changed=False, text="nothing changed: the defs have the same meaning")
    if forced_data_def is not None:
        statistics.recount(db, seq)  # the stored rows of these pages may be damaged
    current = current or PreparedDefs.from_definitions(versions.read(db, run.defs_version))
    runs.set_version(db, seq, version)
    _apply_limits(db, seq, current.definitions, definitions, settings)
    sequences.set_groups(db, seq, [group.name for group in definitions.task_groups])
    removed_paths = outputs.prune(db, seq, [*declared, *_retained_outputs(db, seq, definitions, declared)])
    pages = _begin_reextraction(db, run, version, current, defs, forced_data_def) if reextract else 0
    text = describe_changes(current, defs, pages)
    events.log(db, seq, "INFO", "defs", f"defs v{run.defs_version} → v{version}: {text}")
    for path in filter(None, removed_paths):
        events.log(db, seq, "WARNING", "defs", f"{path}: no appender writes this file any more; it stays unchanged")
    _warn_kept_pages(db, seq, current.definitions, definitions)
    return PublishResult(version=version, changed=True, text=f"defs v{version}: {text}")


def count_stale_pages(db: Database, run: int, current: PreparedDefs, new: PreparedDefs, settings: Settings) -> int:
    """The number of done pages that publishing `new` over `current` would re-extract, by the counters."""
    if settings.on_reload == "new_only":
        return 0
    worked = _count_worked_pages(db, run)
    return int(sum(worked.get(group, 0) for group in find_stale_groups(current, new)))


def _count_worked_pages(db: Database, run: int) -> Counter[str]:
    """Pages that may be re-extracted, by group: done ones, and those that a plugin step failed."""
    return Counter(sequences.count_done_pages(db, run)) + Counter(results.count_failed_pages(db, run))


def _apply_limits(db: Database, run: int, old: Definitions, new: Definitions, settings: Settings) -> None:
    if old.hosts != new.hosts:
        for key in hosts.list_keys(db, run):
            policy = resolve_host_policy(new, settings, key)
            if new.host_rule(key) != old.host_rule(key):
                refusals.forget(db, filter(None, [hosts.find(db, run, key)]))
            if policy != resolve_host_policy(old, settings, key):
                host = placement.apply_host_policy(db, run, key, policy)
                if policy.login != resolve_host_policy(old, settings, key).login:
                    logins.apply_rule(db, run, host, policy.login)
            if _allows_private(new, key) and not _allows_private(old, key):
                placement.readmit_host(db, run, key, policy)
    page_limits.apply(db, run, new, settings)


def _allows_private(definitions: Definitions, host_key: str) -> bool:
    name, _, port = host_key.rpartition(":")
    return definitions.allows_private(name, int(port))


def _retained_outputs(
    db: Database, run: int, new: Definitions, declared: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Outputs that an earlier start requested with `-o` and whose dataDefs still exist."""
    flagged = {appender for appender, _ in declared} == {"flag"}
    return [
        (output.appender, output.data_def)
        for output in outputs.list_outputs(db, run)
        if (flagged or output.appender == "flag") and new.data_def(output.data_def) is not None
    ]


def _begin_reextraction(
    db: Database, run: Run, version: int, old: PreparedDefs, new: PreparedDefs, forced: str | None
) -> int:
    """Start the re-extraction of stale pages; returns their number by the counters."""
    seq = run.seq
    before, after = versions.get_page_hashes(db, run.defs_version or 0), versions.get_page_hashes(db, version)
    stale = stale_groups(before, after)
    forced_groups = [
        p.group for p in new.groups if forced is not None and any(name == forced for name, _ in p.data_defs)
    ]
    recorded, _ = runs.get_reextraction(db, seq)
    earlier = recorded or StaleSearch()
    done = _count_worked_pages(db, seq)
    pages = int(sum(done.get(group, 0) for group in dict.fromkeys([*stale, *forced_groups])))
    returned = set(after) - set(before)  # a group that returns may have pages from before
    if not pages and not any(done.get(group) for group in returned) and recorded is None:
        return 0
    names = {*changed_data_defs(old, new), *([forced] if forced else [])}
    counts = {name: of.rows for name, of in rows.counts(db, seq).items() if name in names}
    targets = relinked_groups(old.definitions, new.definitions, stale)
    runs.set_relinking(db, seq, bool(targets))
    search = StaleSearch(
        upto=stale_pages.last_job_id(db), expected=pages, before={**counts, **earlier.before},
        groups=list(dict.fromkeys([*forced_groups, *earlier.groups])), targets=list(targets),
    )  # fmt: skip
    runs.set_reextraction(db, seq, search)
    runs.add_reextracted(db, seq, 0, reset=recorded is None)
    return pages


def _warn_kept_pages(db: Database, run: int, old: Definitions, new: Definitions) -> None:
    """Warn about the pages of removed groups: they keep their rows in this run."""
    removed = [group.name for group in old.task_groups if new.task_group(group.name) is None]
    done = sequences.count_done_pages(db, run)
    count = sum(done.get(group, 0) for group in removed)
    if count:
        names = ", ".join(removed)
        text = f"{plural(count, 'page')} of {names} keep their rows: the defs no longer have the group"
        events.log(db, run, "WARNING", "defs", text)
