"""In a commit: finds results made with old defs, and queues their pages to be extracted again."""

from collections import Counter
from collections.abc import Iterable, Sequence

from crawl_engine.model.job import JobKind, JobState
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.job import extracts, results
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.job.results import UnitResult
from crawl_engine.store.tables.job.step_values import PluginRun
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome
from crawl_engine.store.tables.output import deliveries, outputs
from crawl_engine.store.tables.row import content_sums, double_rows, health, held_rows, rows
from crawl_engine.store.tables.row.content_sums import ContentSum
from crawl_engine.store.tables.run import landings, runs, versions
from crawl_engine.store.tables.run.landings import Landed, Landing


class OldRows(Effect):
    """A re-extraction replaces the rows of its page, except those of these dataDefs (ids)."""

    kept_data_defs: tuple[int, ...] = ()


class Outdated(Effect):
    """The page of an outcome is stale by now: its defs changed, or what it carries (`is_carried`)."""

    is_carried: bool = False


class FailedSteps(Effect):
    """The state of a re-extracted page follows from its plugin steps."""


def settle_outdated(commit: Commit, outcomes: Sequence[JobOutcome]) -> list[tuple[JobOutcome, Effect]]:
    """Compare the defs of the outcomes with the current ones. Returns those whose pages are already stale.

    Links into groups that the current defs lack create no job, and their page gets no def version: if the group comes
    back, the page is re-extracted for its links. The outcome of a stale re-extraction is dropped and the job is READY
    again.
    """
    db = commit.db
    current = versions.current(db, commit.run) if commit.defs_version is None else commit.defs_version
    outdated = [outcome for outcome in outcomes if outcome.job.defs_version != current]
    if not outdated:
        return []
    present = versions.get_page_hashes(db, current)
    earlier: dict[int, dict[str, str]] = {}
    stale = list[tuple[JobOutcome, Effect]]()
    for outcome in outdated:
        children = outcome.find(Children)
        if children is not None:
            kept = tuple(child for child in children.jobs if child.group in present)
            outcome.links_dropped |= len(kept) < len(children.jobs)
            children.jobs = kept
        version, group = outcome.job.defs_version, outcome.job.group
        if version not in earlier:
            earlier[version] = versions.get_page_hashes(db, version)
        if group in present and earlier[version].get(group) == present[group]:
            continue
        if outcome.job.kind is JobKind.EXTRACT:
            _drop_extraction(outcome)
        elif outcome.job.kind is JobKind.PAGE and _is_done(outcome) and commit.reextract_stale and group in present:
            stale.append((outcome, Outdated()))
    return stale


def settle_carried(commit: Commit, outcomes: Sequence[JobOutcome]) -> Iterable[tuple[JobOutcome, Effect]]:
    """The pages that carry something else by now than what they were worked with: their parent was processed again.

    A re-extraction of such a page is dropped, and its job is READY again.
    """
    for outcome in outcomes:
        row = commit.leased.get(outcome.job.id)
        if row is None or not row.carries_other:
            continue
        if outcome.job.extraction.page_job is not None:
            _drop_extraction(outcome)
        elif _is_done(outcome):
            yield outcome, Outdated(is_carried=True)


def settle_reextracted(_: Commit, outcomes: Sequence[JobOutcome]) -> Iterable[tuple[JobOutcome, Effect]]:
    """Re-extracted pages may have other failed steps than before."""
    return [(outcome, FailedSteps()) for outcome in outcomes if outcome.is_reextracted]


def _is_done(outcome: JobOutcome) -> bool:
    """Whether its page was extracted. A page whose plugin step failed is FAILED, and keeps the rows of other tasks."""
    if outcome.state is not JobState.FAILED or outcome.page is None:
        return outcome.state is JobState.DONE
    return any(unit.result.outcome == "error" for unit in outcome.find_all(UnitResult))


def _drop_extraction(outcome: JobOutcome) -> None:
    """Drop what a re-extraction gave: it is READY again."""
    outcome.state = JobState.READY
    outcome.effects = tuple(PluginRun({}) for _ in outcome.find_all(PluginRun))


def write_outdated(commit: Commit, made: Sequence[tuple[JobOutcome, Outdated]]) -> None:
    """Queue the re-extraction of pages done with old defs."""
    stale = [outcome for outcome, outdated in made if not outdated.is_carried]
    if stale:
        extracts.queue(commit.db, [outcome.job.id for outcome in stale])
    extracts.queue_again(commit.db, [outcome.job.id for outcome, outdated in made if outdated.is_carried])


def write_old_rows(commit: Commit, made: Sequence[tuple[JobOutcome, OldRows]]) -> None:
    """Delete the old rows of re-extracted pages; new rows are written next."""
    groups: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for outcome, old in made:
        groups.setdefault((old.kept_data_defs, outcome.job.defs_version), []).append(outcome.job.page_id)
    for (kept, version), pages in groups.items():
        commit.vacant_keys.update(_delete_results(commit.db, commit.run, pages, kept))
        extracts.set_defs_version(commit.db, version, pages)
    runs.add_reextracted(commit.db, commit.run, len(made))


def write_failed_steps(commit: Commit, made: Sequence[tuple[JobOutcome, FailedSteps]]) -> None:
    """Pages with a failed step are FAILED, others that a step had failed are DONE."""
    pages = [outcome.job.page_id for outcome, _ in made]
    failed = results.list_errors(commit.db, pages)
    extracts.set_step_failures(commit.db, failed, [page for page in pages if page not in failed])


def write_landings(commit: Commit, made: Sequence[tuple[JobOutcome, Landed]]) -> None:
    """Note where the pages are, and take back the rows of jobs that are not the first ones any more."""
    db, run = commit.db, commit.run
    found = [pair for pair in made if not pair[1].has_values and pair[0].reason != landings.UNLINKED]
    new = {
        (landed.key, outcome.job.id): Landing(
            run, landed.key, outcome.job.id, int(bool(landed.page_key)), int(outcome.state is not JobState.SKIPPED)
        )
        for outcome, landed in found
    }
    for _, landed in found:
        for job in landed.own_jobs:
            new.setdefault((landed.key, job), Landing(run, landed.key, job, 0, 1))
    if not new:
        return
    commit.has_landings = True
    landings.add(db, list(new.values()))
    kept = landings.list_kept(db, run, dict.fromkeys(key for key, _ in new))
    later = [pair for jobs in kept.values() for pair in jobs[1:]]
    if later:
        ids = [job for job, _ in later]
        extracts.drop_of_pages(db, ids)
        take_back_pages(db, run, ids)
        landings.skip_done(db, later)
    for key in {key for key, _ in new} - kept.keys():  # the first one had lost its lease: another takes its place
        landings.requeue(db, min(job for of, job in new if of == key))


def take_back_pages(db: Database, run: int, pages: Iterable[int]) -> None:
    """Delete the rows of pages and subtract what was counted of them; doubles take the place of unique ones."""
    promote_doubles(db, run, _delete_results(db, run, pages))


def promote_doubles(db: Database, run: int, keys: Iterable[bytes]) -> None:
    """Where the row of a unique key was deleted, its oldest double becomes a row."""
    sums, counts = dict[str, ContentSum](), Counter[str]()
    for name, group, digest in double_rows.move_oldest(db, run, sorted(keys)):
        counts[name] += 1
        sums.setdefault(group, ContentSum()).add_row(digest)
    content_sums.move(db, run, sums)
    for name, count in counts.items():
        rows.add_counts(db, run, name, rows=count, duplicates=-count)


def _delete_results(db: Database, run: int, pages: Iterable[int], kept_ids: Iterable[int] = ()) -> list[bytes]:
    """Delete the rows of pages, except those of the kept dataDefs; returns the unique keys that no row has now."""
    listed, kept = id_list(pages), id_list(kept_ids)
    deliveries.withdraw(db, run, listed, kept)
    replaced, keys = rows.delete_replaced(db, listed, kept)
    for name, count, first in replaced:
        rows.add_counts(db, run, name, rows=-count)
        outputs.mark_dirty(db, run, name, first)
    for name, count in double_rows.delete_replaced(db, listed, kept).items():
        rows.add_counts(db, run, name, duplicates=-count)
    for name, count in held_rows.delete_replaced(db, listed, kept).items():
        rows.add_counts(db, run, name, waiting=-count)
    for name, count in rows.delete_rejected(db, listed, kept):
        rows.add_counts(db, run, name, rejected=-count)
    health.take_back(db, run, listed, kept)
    results.take_back(db, run, listed, kept)
    return keys
