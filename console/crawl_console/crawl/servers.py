"""Which web servers watch a data dir, and who asks them: each writes a small file there."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from crawl_engine.runtime.private_file import create_draft
from crawl_engine.runtime.process_identity import identity_of, is_process_alive

_NAME, _MAX_BYTES = "serve-{}.json", 100_000


class ServerClient(Struct, frozen=True):
    """Somebody who asks. Field names and their order are the keys of `status --json`, as in the next one."""

    address: str
    """As in `commands.given_by`: `web 10.1.2.3`, `socket`."""
    listening: int
    """Streams of events that are open."""
    requests: int


class ServerRow(Struct, frozen=True):
    pid: int
    url: str
    socket: str | None
    control: bool
    clients: list[ServerClient]


class _Stored(Struct, frozen=True):
    identity: str | None
    row: ServerRow


def write_server(data: Path, row: ServerRow) -> None:
    """Say that this process serves a data dir; a data dir that is not there, or cannot be written, stays so."""
    path = data / _NAME.format(os.getpid())
    draft = path.with_suffix(".new")
    try:
        with os.fdopen(create_draft(draft), "wb") as file:
            file.write(msgspec.json.encode(_Stored(identity_of(os.getpid()), row)))
        draft.replace(path)
    except OSError:
        return


def remove_server(data: Path) -> None:
    """Take that back, and what servers left that were killed."""
    for path in data.glob(_NAME.format("*")):
        stored = _read(path)
        if path.name == _NAME.format(os.getpid()) or (stored is not None and not _is_alive(stored)):
            path.unlink(missing_ok=True)


def list_servers(data: Path) -> list[ServerRow]:
    """The living servers of a data dir."""
    found = [stored for path in sorted(data.glob(_NAME.format("*"))) if (stored := _read(path)) is not None]
    return [stored.row for stored in found if _is_alive(stored)]


def _read(path: Path) -> _Stored | None:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=_Stored)
    except (OSError, msgspec.DecodeError):
        return None


def _is_alive(stored: _Stored) -> bool:
    return stored.identity is not None and is_process_alive(stored.identity)
