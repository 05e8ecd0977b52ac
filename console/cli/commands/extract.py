"""The command `extract`: re-extracts the stored pages of the latest run with the defs on disk."""

from collections.abc import Sequence
from pathlib import Path

import click

from console.cli.options import common_options, defs_option, load_settings_of, summary_option


@click.command()
@click.argument("data_def", required=False)
@defs_option
@summary_option
@common_options
def extract(data_def: str | None, defs: Path, as_json: bool, data: Path, assign: Sequence[str]) -> int:
    """Re-extract the stored pages of the latest run with the defs on disk; fetch nothing."""
    from msgspec.structs import replace

    from console.cli.commands.run import HeadlessOptions, run_headless
    from console.client import require_database_path

    require_database_path(data)  # before taking the lock creates the folder
    settings, _ = load_settings_of(defs, assign)
    settings = replace(settings, on_reload="reextract", max_pages=None)  # nothing is fetched
    return run_headless(
        HeadlessOptions(
            defs=defs, data=data, settings=settings, json=as_json, extract_only=True, data_def=data_def,
        )
    )  # fmt: skip
