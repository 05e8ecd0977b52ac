"""The command `completion`: prints the script with which a shell completes command lines."""

import click

from crawl_console.cli.completion import SHELLS, read_script
from crawl_console.cli.options import choice, common_options

_HELP = """Print the script with which SHELL completes commands, flags and names of the data directory.

\b
~/.bashrc:                   eval "$(crawl-console completion bash)"
~/.zshrc:                    eval "$(crawl-console completion zsh)"
~/.config/fish/config.fish:  crawl-console completion fish | source
"""


@click.command(help=_HELP)
@click.argument("shell", type=choice(SHELLS))
@common_options()
@click.pass_context
def completion(context: click.Context, /, shell: str) -> int:
    """Print the script of a shell."""
    click.echo(read_script(context.find_root().command, shell))
    return 0
