"""The command line: imports a command's module when invoked, maps errors to exit codes."""

import errno
import gc
import importlib
import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import click

from crawl_console.cli.commands import COMMANDS, EXAMPLES, INSTALLED_COMMANDS
from crawl_console.cli.output import redirect_to_devnull
from crawl_engine import __version__
from crawl_engine.errors import CrawlError, DefsError, UsageError, suggest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_ENVIRONMENT_ERRORS = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE,
}  # fmt: skip
"""Missing permissions, a full disk, a failing output: the user has to fix something outside the program."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    _open_missing_streams()
    _add_program_folder()
    if "_CRAWL_CONSOLE_COMPLETE" in os.environ:
        from crawl_console.cli.completion import complete

        sys.exit(complete(crawl_console))
    words = list(sys.argv[1:] if arguments is None else arguments)
    late_command = None
    if not words or (words[0].startswith("-") and words[0] not in ("--version", "-V", "--help", "-h")):
        late_command = next((word for word in words if word in COMMANDS), None)
        words.insert(0, "run")
    elif words[0] == "help":
        words = [*words[1:2], "--help"]
    code = _invoke(words, late_command)
    try:
        sys.stderr.flush()
    except OSError:  # the terminal is gone; the exit code stays
        redirect_to_devnull(sys.stderr)
    gc.freeze()  # the final garbage collection is slow, and the system frees all memory anyway
    sys.exit(code)


def _add_program_folder() -> None:
    """Put the folder of this program at the end of PATH: commands of the user find it under cron and systemd, too."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    folder = os.path.dirname(os.path.abspath(sys.executable))  # noqa: PTH100, PTH120 - a link of a venv stays one
    if folder not in folders:
        os.environ["PATH"] = os.pathsep.join([*folders, folder])


def _open_missing_streams() -> None:
    """Open closed standard streams on /dev/null: a database could get their descriptor and receive our output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def _check_encoding(words: Sequence[str]) -> None:
    """Raise UsageError for a word of the command line that is not text: no database and no JSON can hold it."""
    for word in words:
        if not word.isascii():
            try:
                word.encode()
            except UnicodeEncodeError:
                shown = os.fsencode(word).decode("utf-8", "backslashreplace")
                raise UsageError(f"{shown}: not UTF-8", "Write arguments and paths in UTF-8.") from None


def _invoke(words: list[str], late_command: str | None = None) -> int:
    """Run a command; returns its exit code. Errors become messages. `late_command`: a command behind options."""
    try:
        _check_encoding(words)
        return int(crawl_console.main(words, prog_name="crawl-console", standalone_mode=False, obj=words) or 0)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        _explain(error).show()
        if words[0] == "run" and "unexpected extra argument" in error.format_message():
            from crawl_engine.other_names import URL_REMEDY

            click.echo(f"To crawl a page, {URL_REMEDY}.", err=True)
        if late_command is not None:
            click.echo(f"A command stands before its options: crawl-console {late_command} …", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except CrawlError as error:
        # problems of the defs start with file:line:col, which editors recognize at the start of a line
        click.echo(str(error) if isinstance(error, DefsError) else f"error: {error}", err=True)
        return error.exit_code
    except (BrokenPipeError, SystemExit):  # the reader of our output is gone; click turns that into SystemExit
        redirect_to_devnull(sys.stdout)
        return 0
    except Exception as error:
        if "CRAWL_TRACEBACK" in os.environ:
            raise
        if isinstance(error, OSError) and error.errno in _ENVIRONMENT_ERRORS:
            redirect_to_devnull(sys.stdout)
            where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
            click.echo(f"error: {where}{error.strerror}", err=True)
            click.echo("  Check permissions, disk space and where the output goes, then run it again.", err=True)
            return 3
        click.echo(f"error: a fault of the program: {type(error).__name__}: {error}", err=True)
        click.echo("  Please report it with the traceback that CRAWL_TRACEBACK=1 shows.", err=True)
        return 3


def _explain(error: click.ClickException) -> click.ClickException:
    """The error; an option that has another name elsewhere, and a word in place of a number, are told in our words."""
    if isinstance(error, click.NoSuchOption):
        from crawl_engine.other_names import OPTIONS

        name = OPTIONS.get(error.option_name)
        options = error.ctx.command.params if error.ctx is not None else []
        if name is not None and any(name in option.opts for option in options):
            return click.UsageError(f"No such option '{error.option_name}'. Did you mean '{name}'?", error.ctx)
    if isinstance(error, click.BadParameter) and error.param is not None:
        kind = error.param.type
        if isinstance(kind, click.IntRange | click.FloatRange):
            number = "a whole number" if isinstance(kind, click.IntRange) else "a number"
            text = re.sub(r"not a valid \w+ range", f"not {number} ({kind._describe_range()})", error.message)
            return click.BadParameter(text, error.ctx, error.param)
    return error


class LazyGroup(click.Group):
    """A group that knows its commands from a table and imports the module of the one that is used.

    Commands of installed packages are looked up where a name is not built in, and for lists.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_summaries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return INSTALLED_COMMANDS.get(cmd_name)
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"crawl_console.cli.commands.{module}"), attribute)
        lines = [f"  crawl-console {example}" for example in EXAMPLES[cmd_name]]
        command.epilog = "\n".join(["\b", "Examples:", *lines])  # \b: keep the lines
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """As click, without importing the commands."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=summary) for name, summary in _summaries().items() if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click, with a suggestion for an unknown command."""
        if args[0] not in COMMANDS and args[0] not in INSTALLED_COMMANDS:
            from crawl_engine.other_names import COMMANDS as OTHER_COMMANDS
            from crawl_engine.other_names import URL_REMEDY

            name = URL_REMEDY if "://" in args[0] else OTHER_COMMANDS.get(args[0])
            hint = suggest(args[0], self.list_commands(ctx)) if name is None else f" (did you mean '{name}'?)"
            if name is not None and " " in name:
                hint = f": {name}"
            raise click.UsageError(f"No such command '{args[0]}'{hint}.", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of `--help` from the tables: it imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_summaries().items()))


@cache
def _summaries() -> dict[str, str]:
    """What each command does, by name; of an installed one, its package."""
    installed = {name: f"Of the package {origin}." for name, origin in INSTALLED_COMMANDS.installed()}
    return dict(sorted((installed | {name: summary for name, (_, summary) in COMMANDS.items()}).items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="crawl-console", message="%(prog)s %(version)s")
def crawl_console() -> None:
    """Crawl and scrape what YAML defs describe; `run` is the default command."""


if __name__ == "__main__":
    main()
