"""Commands to a running supervisor: each is a row it carries out and answers."""

import time
from pathlib import Path
from typing import Any

import click

from console.cli.commands.status import read, supervisor_of
from engine.errors import NoSupervisor
from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL
from engine.store.tables import commands

_PATIENCE = 10.0


def order(data: Path, name: str, arguments: dict[str, Any]) -> int:
    """Give a command and print its answer; returns 0, or 2 where it was refused.

    Raises NoSupervisor where nobody is alive to obey.
    """
    done, answer = ask(data, name, arguments)
    click.echo(answer, err=not done)
    return 0 if done else 2


def ask(data: Path, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
    """Give a command and wait for its answer: whether it was done, and what the supervisor says.

    Raises NoSupervisor where nobody is alive to obey.
    """
    look = read(data)
    if look.epoch is None or supervisor_of(look) is None:
        raise NoSupervisor(f"{data}: no supervisor is running", "Start one with `crawl-console run`.")
    db = Database.open(data / CRAWL)
    try:
        with db.transaction():
            command = commands.give(db, look.epoch.epoch, name, arguments, time.time())
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            state, answer = commands.answer(db, command)
            if state != "NEW":
                return state == "DONE", answer
            if supervisor_of(look) is None:
                raise NoSupervisor(f"{data}: the supervisor ended before it obeyed", "See `crawl-console status`.")
            time.sleep(0.02)
    finally:
        db.close()
    raise NoSupervisor(f"{data}: no answer within {_PATIENCE:g} s", "The supervisor may hang; see data/logs.")
