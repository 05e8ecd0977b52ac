"""The interactive way: find or start a supervisor, show the console, say how it was left. Textual is imported late."""

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from console import terminal
from console.format import plural
from console.sanitize import clean
from console.tui import spawn
from engine.errors import LockHeld

_EXIT_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachOptions:
    """What was asked for. `arguments`: how to start a supervisor, should none run."""

    data: Path
    defs: Path
    arguments: Sequence[str]
    hertz: float = 2.0
    read_only: bool = False
    fresh: bool = False
    max_failed: int = 0


def attach(asked: AttachOptions) -> int:
    """Show the console until it is left; returns the exit code. Raises CrawlError where nothing could be started."""
    child = None
    if not asked.read_only:
        found = spawn.find_supervisor_pid(asked.data)
        if found is None:
            try:
                child = spawn.start_supervisor(asked.data, asked.arguments)
            except spawn.StartFailed as ended:
                sys.stderr.write("".join(f"{clean(line)}\n" for line in ended.output.splitlines()))
                return ended.exit_code
        elif asked.fresh:
            raise LockHeld(
                f"{asked.data}: a supervisor runs already (pid {found}): no fresh run can begin",
                "Attach with `crawl-console`, or stop it with `crawl-console cancel`.",
            )
    try:
        code, signalled = _run_console(asked, owner=child is not None)
    finally:
        _print_exit_summary(asked, sys.stderr)
    return code if child is None or signalled else _final_exit_code(child, code)


def _final_exit_code(child: "subprocess.Popen[bytes]", code: int) -> int:
    """The supervisor's own exit code where it ended, too: it knows best how. Else the console's."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        ended = child.wait(_EXIT_TIMEOUT if code else 0)
        return ended if ended >= 0 else 128 - ended
    return code


def _run_console(asked: AttachOptions, *, owner: bool) -> tuple[int, bool]:
    """The code the console ends with, and whether a signal ended it."""
    from console.tui import config
    from console.tui.app import Console
    from console.tui.options import ConsoleOptions
    from console.tui.state.control import LocalControlClient
    from console.tui.state.source import DatabaseSource

    chosen = config.load()
    app = Console(
        ConsoleOptions(
            data=asked.data, defs=asked.defs, hertz=asked.hertz, config=chosen, owner=owner,
            read_only=asked.read_only, ascii_only=terminal.ascii_only(), max_failed=asked.max_failed,
        ),
        DatabaseSource(asked.data),
        LocalControlClient(asked.data),
    )  # fmt: skip
    with contextlib.suppress(AttributeError, ValueError):  # a sign the terminal cannot show must not end the console
        sys.__stderr__.reconfigure(errors="replace")  # type: ignore[union-attr]
    app.run(mouse=chosen.mouse)
    if app.unhandled_error is not None:
        raise app.unhandled_error
    return app.return_code or 0, app.signalled


def _print_exit_summary(asked: AttachOptions, stream: TextIO) -> None:
    """One or two lines below the restored screen."""
    from console.cli.commands.status import read_snapshot, supervisor_pid

    look = read_snapshot(asked.data)
    run = look.run
    if run is None:
        return
    where = "" if asked.data == Path("data") else f" --data {asked.data}"
    pid = supervisor_pid(look)
    with contextlib.suppress(OSError):
        if pid is not None:
            nodes = sum(node.pid is not None for node in look.nodes)
            stream.write(
                f"Detached; {plural(nodes, 'node')} still running (supervisor {pid}, run {run.id}).\n"
                f"Come back with `crawl-console run{where}`; stop with `crawl-console cancel{where}`.\n"
            )
        else:
            because = f": {run.reason}" if run.reason else ""
            stream.write(clean(f"run {run.id} {run.state}{because}; {look.jobs['done']} done, "
                               f"{look.jobs['failed']} failed, {sum(look.rows.values())} rows") + "\n")  # fmt: skip
            stream.writelines(clean(f"  {output.rows:>8} rows  {output.path}") + "\n" for output in look.appenders)
            if run.state != "DONE":
                stream.write(f"`crawl-console run{where}` goes on where it stopped\n")
        stream.flush()
