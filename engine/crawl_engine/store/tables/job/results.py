"""Writes the tables `results`, `unlisted_results` and `result_counts`: what plugin steps reported."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from crawl_engine.model.step import StepResult
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome

MAX_WARNINGS = 1_000
"""Rows of warnings of one step with one code in a run; further ones are counted."""
MAX_CODES, OTHER_CODE = 100, "other"
"""Codes of a step in a run that are told apart, and the code of all further ones."""
_ADD = """
INSERT INTO results (run, job, data_def, grp, task, step, outcome, code, ms, text) {values}
"""
_ADD_UNLISTED = """
INSERT INTO unlisted_results (job, data_def, grp, task, step, outcome, code, results) {values}
ON CONFLICT (job, data_def, step, outcome, code) DO UPDATE SET results = unlisted_results.results + excluded.results
"""
_COUNT = """
INSERT INTO result_counts (run, grp, task, step, outcome, code, results) {values}
ON CONFLICT (run, grp, task, step, outcome, code) DO UPDATE SET results = result_counts.results + excluded.results
"""
_COUNTS_OF_STEP = """
SELECT outcome, code, results FROM result_counts WHERE run = ? AND grp = ? AND task = ? AND step = ?
"""
_SUMS = """
SELECT grp, task, step, outcome, code, count(*) FROM results
WHERE job IN (SELECT value FROM json_each(:jobs)) AND data_def NOT IN (SELECT value FROM json_each(:kept))
GROUP BY grp, task, step, outcome, code
UNION ALL SELECT grp, task, step, outcome, code, sum(results) FROM unlisted_results
WHERE job IN (SELECT value FROM json_each(:jobs)) AND data_def NOT IN (SELECT value FROM json_each(:kept))
GROUP BY grp, task, step, outcome, code
"""
_DELETE = """
DELETE FROM {table} WHERE job IN (SELECT value FROM json_each(:jobs))
    AND data_def NOT IN (SELECT value FROM json_each(:kept))
"""
_COUNT_FAILED_PAGES = """
SELECT grp, count(DISTINCT job) FROM results WHERE run = ? AND outcome = 'error' GROUP BY grp
"""
_ERRORS = """
SELECT job, task || '/' || step || ': ' || text FROM results
WHERE job IN (SELECT value FROM json_each(?)) AND outcome = 'error' ORDER BY id DESC
"""


class UnitResult(Effect):
    """What became of a plugin step on a page, with the id (tables.versions) of its unit, and its group."""

    data_def_id: int
    group: str
    result: StepResult


def write(commit: Commit, made: Sequence[tuple[JobOutcome, UnitResult]]) -> None:
    """Write and count the results of pages. Of `not_applicable`, and of warnings beyond a number, only counts."""
    db, run = commit.db, commit.run
    counts: Counter[tuple[Any, ...]] = Counter()
    unlisted: Counter[tuple[Any, ...]] = Counter()
    listed: list[tuple[Any, ...]] = []
    codes_by_step: dict[tuple[str, str, str], dict[str, int]] = {}
    """By group, task and step: the codes of the run so far, and the warnings of each."""
    for page, unit in made:
        job, data_def, group = page.job.page_id, unit.data_def_id, unit.group
        task, step, outcome, code, milliseconds, text = unit.result
        if outcome in ("warning", "error"):
            place = (group, task, step)
            if place not in codes_by_step:
                codes_by_step[place] = _count_codes(db, run, place)
            codes = codes_by_step[place]
            if code not in codes and len(codes) >= MAX_CODES:
                code = OTHER_CODE
            codes.setdefault(code, 0)
            codes[code] += outcome == "warning"
        counts[run, group, task, step, outcome, code] += 1
        is_listed = outcome != "not_applicable"
        if outcome == "warning":
            is_listed = codes_by_step[group, task, step][code] <= MAX_WARNINGS
        if is_listed:
            listed.append((run, job, data_def, group, task, step, outcome, code, milliseconds, text))
        else:
            unlisted[job, data_def, group, task, step, outcome, code] += 1
    db.execute_values(_ADD, listed)
    db.execute_values(_ADD_UNLISTED, [(*key, count) for key, count in unlisted.items()])
    db.execute_values(_COUNT, [(*key, count) for key, count in counts.items()])


def _count_codes(db: Database, run: int, place: tuple[str, str, str]) -> dict[str, int]:
    """The codes of a step in a run, each with the number of its warnings."""
    codes: dict[str, int] = {}
    for outcome, code, count in db.all(_COUNTS_OF_STEP, (run, *place)):
        if outcome in ("warning", "error"):
            codes[code] = codes.get(code, 0) + (int(count) if outcome == "warning" else 0)
    return codes


def take_back(db: Database, run: int, jobs: str, kept: str) -> None:
    """Subtract and delete the results of pages, except those of kept units; both are JSON lists of ids."""
    parameters = {"jobs": jobs, "kept": kept}
    sums = db.all(_SUMS, parameters)
    if sums:
        db.execute_values(_COUNT, [(run, *key, -count) for *key, count in sums])
        db.execute("DELETE FROM result_counts WHERE run = ? AND results <= 0", (run,))
        for table in ("results", "unlisted_results"):
            db.execute(_DELETE.format(table=table), parameters)


def count_failed_pages(db: Database, run: int) -> dict[str, int]:
    """Pages with a step that failed, by group."""
    return dict(db.all(_COUNT_FAILED_PAGES, (run,)))


def list_errors(db: Database, jobs: Iterable[int]) -> dict[int, str]:
    """Those of these jobs with a step that failed, and the first reason: `TASK/STEP: text`."""
    return dict(db.all(_ERRORS, (id_list(jobs),)))
