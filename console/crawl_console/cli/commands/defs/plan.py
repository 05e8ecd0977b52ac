"""The command `plan`: shows how publishing the defs on disk would change a run. Writes nothing."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from crawl_console.cli.options import (
    arguments_option,
    base_url_option,
    common_options,
    defs_option,
    load_defs,
    object_option,
    run_option,
)
from crawl_console.cli.output import show_count, write_json, write_lines
from crawl_console.format import plan_lines

if TYPE_CHECKING:
    from crawl_engine.preview.plan import PlannedChanges


@click.command()
@defs_option
@arguments_option
@base_url_option
@click.option("--full", is_flag=True, help="Compare every page to be re-extracted, not a sample of each group.")
@object_option
@run_option
@common_options("data", "assigned")
def plan(
    defs: Path, base_url: str | None, full: bool, as_json: bool, run_id: str | None, data: Path,
    assigned: dict[str, str], arguments: dict[str, str],
) -> int:  # fmt: skip
    """Compare the defs on disk with those of the run. Exit 0: no difference, 1: differences, 2: invalid defs."""
    from crawl_console.client import open_latest_run
    from crawl_engine.preview.extraction_client import ExtractionClient
    from crawl_engine.preview.plan import plan_defs

    definitions, settings = load_defs(defs, assigned, arguments, data, run_id, base_url=base_url)
    with (
        open_latest_run(data, run_id=run_id) as (db, run),
        ExtractionClient(settings) as client,
        show_count("pages compared", shown=full) as count,
    ):
        result = plan_defs(db, data, run, definitions, client, full=full, on_page=lambda: count(1))
    if as_json:
        write_json(_plan_as_dict(result))
    else:
        write_lines(*(line for line, _ in plan_lines(result)))
    return 1 if result.differs else 0


def _plan_as_dict(plan: "PlannedChanges") -> dict[str, Any]:
    """The object of `plan --json`; the names are stable."""
    return {
        "version": plan.version,
        "differs": plan.differs,
        "changes": plan.text,
        "pages": plan.pages,
        "compared": plan.compared,
        "unreadable": plan.unreadable,
        "pruned": dict(plan.pruned),
        "exact": plan.exact,
        "rows": {name: asdict(counts) for name, counts in plan.rows.items()},
        "emptied": {name: dict(fields) for name, fields in plan.emptied.items()},
        "locators": {"added": plan.locators_added, "removed": plan.locators_removed},
    }
