"""The command `shell`: evaluates selectors on one page, typed or read from stdin."""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawl_console.cli.options import arguments_option, browser_option, common_options, defs_option, load_settings_of
from crawl_console.cli.output import write_stderr
from crawl_engine.errors import DefsError, UsageError
from crawl_engine.runtime.user_folder import state_folder

if TYPE_CHECKING:
    from crawl_console.cli.selector_shell import SelectorShell
    from crawl_engine.preview.rendering import Window

_HISTORY_LENGTH = 1000
_USERINFO = re.compile(r"(https?:[/\\]+)[^/\\?#\s]*@", re.IGNORECASE)


@click.command()
@click.argument("source", metavar="URL|FILE")
@click.option("--url", metavar="U", help="The address of FILE: its links resolve against it.")
@browser_option
@click.option("--show", is_flag=True, help="With --browser: show the page in a window.")
@defs_option
@arguments_option
@common_options("assigned")
def shell(
    source: str, url: str | None, browser: bool, show: bool, defs: Path, assigned: dict[str, str],
    arguments: dict[str, str],
) -> int:  # fmt: skip
    """Type selectors and see what they match on a page."""
    from crawl_console.cli.page_source import find_start_url, read_source
    from crawl_console.cli.selector_shell import SelectorShell
    from crawl_engine.defs.loader import load
    from crawl_engine.model.definition import Definitions

    if show and not browser:
        raise UsageError("--show goes with --browser", "Give both.")
    settings, _ = load_settings_of(defs, assigned)
    if source == "-":
        raise UsageError("stdin cannot be the page: selectors are read from it", "Give a URL or a FILE.")
    try:
        definitions = (
            load(defs, settings.default_steps, arguments=arguments).definitions if defs.exists() else Definitions()
        )
    except DefsError as error:
        write_stderr(f"warning: {error.problems[0]}; the defs are ignored")
        definitions = Definitions()
    with contextlib.ExitStack() as stack:
        window = stack.enter_context(contextlib.closing(_open_window())) if show else None
        document = read_source(source, url, definitions, settings, browser=browser, window=window)
        start_url = find_start_url(source, document)
        session = SelectorShell(
            defs, settings, document, start_url=start_url, arguments=arguments, browser=browser, window=window
        )
        stack.callback(session.close)
        session.start()
        _execute_lines(session)
    return 0


def _execute_lines(session: "SelectorShell") -> None:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # the session reports a line that is not UTF-8
    typed = sys.stdin.isatty() and sys.stdout.isatty()
    lines = _read_lines(lambda: session.prompt, session.completions()) if typed else iter(sys.stdin.readline, "")
    for line in lines:
        try:
            session.execute(line)
        except KeyboardInterrupt:
            click.echo("stopped")
        if session.closed:
            break


def _open_window() -> "Window":
    from crawl_engine.preview.rendering import Window

    return Window()


def _read_lines(prompt: Callable[[], str], words: Sequence[str]) -> Iterator[str]:
    """Yield typed lines; `words` are completions of a whole line. Ctrl-C clears the line, Ctrl-D ends."""
    save_history = _enable_editing(words)
    try:
        while True:
            try:
                yield input(prompt())
            except KeyboardInterrupt:
                click.echo()
            except EOFError:
                click.echo()
                return
    finally:
        save_history()


def _enable_editing(words: Sequence[str]) -> Callable[[], None]:
    """Enable line editing; returns a function that saves the history, without `user:password@` in URLs."""
    try:
        import readline
    except ImportError:
        return lambda: None
    path = state_folder() / "shell_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(path)

    def complete(text: str, number: int) -> str | None:
        return next((w for at, w in enumerate(w for w in words if w.startswith(text)) if at == number), None)

    def save() -> None:
        with contextlib.suppress(OSError):
            for index in range(readline.get_current_history_length()):
                readline.replace_history_item(index, _USERINFO.sub(r"\1", readline.get_history_item(index + 1)))
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.set_history_length(_HISTORY_LENGTH)
            readline.write_history_file(path)
            path.chmod(0o600)

    readline.set_completer(complete)
    readline.set_completer_delims("")
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    return save
