"""Commands to a running supervisor: each is a row it carries out and answers."""

import time
from pathlib import Path
from typing import Any

import click

from console.cli.commands.status import read_snapshot, supervisor_pid
from engine.errors import SupervisorNotRunning
from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL
from engine.store.tables import commands

_REPLY_TIMEOUT = 10.0


def send_and_print(data: Path, name: str, arguments: dict[str, Any]) -> int:
    """Give a command and print its answer; returns 0, or 2 where it was refused.

    Raises NoSupervisor where nobody is alive to obey.
    """
    done, answer = send_command(data, name, arguments)
    click.echo(answer, err=not done)
    return 0 if done else 2


def send_command(data: Path, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
    """Give a command and wait for its answer: whether it was done, and what the supervisor says.

    Raises NoSupervisor where nobody is alive to obey.
    """
    look = read_snapshot(data)
    if look.epoch is None or supervisor_pid(look) is None:
        raise SupervisorNotRunning(f"{data}: no supervisor is running", "Start one with `crawl-console run`.")
    db = Database.open(data / CRAWL)
    try:
        with db.transaction():
            command = commands.submit(db, look.epoch.epoch, name, arguments, time.time())
        deadline = time.monotonic() + _REPLY_TIMEOUT
        while time.monotonic() < deadline:
            state, answer = commands.get_answer(db, command)
            if state != "NEW":
                return state == "DONE", answer
            if supervisor_pid(look) is None:
                raise SupervisorNotRunning(
                    f"{data}: the supervisor ended before it obeyed", "See `crawl-console status`."
                )
            time.sleep(0.02)
    finally:
        db.close()
    raise SupervisorNotRunning(
        f"{data}: no answer within {_REPLY_TIMEOUT:g} s", "The supervisor may hang; see data/logs."
    )
