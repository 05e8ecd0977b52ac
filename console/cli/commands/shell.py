"""The command `shell`: evaluates selectors on one page, typed at a terminal or read line by line from stdin."""

import io
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from console.cli.options import common_options, defs_option, load_settings_of
from console.sanitize import clean
from engine.errors import DefsError, UsageError


@click.command()
@click.argument("source", metavar="URL|FILE")
@click.option("--url", metavar="U", help="The address of FILE: its links resolve against it.")
@defs_option
@common_options
def shell(source: str, url: str | None, defs: Path, data: Path, assign: Sequence[str]) -> int:  # noqa: ARG001
    """Type selectors and see what they match on a page."""
    from console.cli.line_editing import read_lines
    from console.cli.page_source import find_start_url, read_source
    from console.cli.selector_shell import SelectorShell
    from engine.defs.loader import load
    from engine.model.definition import Definitions

    settings, _ = load_settings_of(defs, assign)
    if source == "-":
        raise UsageError("stdin cannot be the page: selectors are read from it", "Give a URL or a FILE.")
    try:
        definitions = load(defs, settings.default_steps).definitions if defs.exists() else Definitions()
    except DefsError as error:
        click.echo(clean(f"warning: {error.problems[0]}; the defs are ignored"), err=True)
        definitions = Definitions()
    document = read_source(source, url, definitions, settings)
    start_url = find_start_url(source, document)
    session = SelectorShell(defs, settings, document, start_url=start_url, echo=click.echo)
    session.start()
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # of a line that is no text, the session says so
    typed = sys.stdin.isatty() and sys.stdout.isatty()
    lines = read_lines(lambda: session.prompt, session.completions()) if typed else iter(sys.stdin.readline, "")
    try:
        for line in lines:
            try:
                session.execute(line)
            except KeyboardInterrupt:
                click.echo("stopped")
            if session.closed:
                break
    finally:
        session.close()
    return 0
