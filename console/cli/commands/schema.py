"""The command `schema`: prints the JSON Schema of the defs."""

from collections.abc import Sequence
from pathlib import Path

import click

from console.cli.options import common_options, validate_assignments


@click.command()
@common_options
def schema(data: Path, assign: Sequence[str]) -> int:  # noqa: ARG001
    """Print the JSON Schema of the defs, for editors."""
    validate_assignments(assign)
    click.echo(schema_json(), nl=False)
    return 0


def schema_json() -> str:
    """The JSON Schema of one def file."""
    import orjson

    from engine.defs.language.schema import build_json_schema

    return orjson.dumps(build_json_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
