"""The first code of a new process: sets it up, then calls the function its order names."""

import importlib
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

from msgspec import Struct

from crawl_engine.processes.child_limits import (
    close_inherited_files,
    die_with_parent,
    limit_free_memory,
    reset_signals,
    set_process_name,
)
from crawl_engine.processes.orders import MessageReader, StartOrder, send_message


class ChildStart(Struct, frozen=True):
    """What a process starts with."""

    arguments: Mapping[str, Any]
    files: Mapping[str, int]
    """Descriptors by name. `output`, if given, is already stdout and stderr."""

    def connect(self) -> socket.socket:
        """The socket to the client. Its descriptor stays open to the very end: closed, the process would be killed."""
        return socket.fromfd(self.files["connection"], socket.AF_UNIX, socket.SOCK_STREAM)


def spawn(module: str, arguments: list[str], connection: socket.socket) -> int:
    """Start `python -m MODULE ARGUMENTS` with a socket as its stdin; returns its pid. Raises OSError.

    `-P` keeps a folder of the user from shadowing our packages. It inherits SIGINT and SIGHUP blocked, which would
    end it before it ignores them.
    """
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", module, *arguments],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, connection.fileno(), 0)],
        setsigmask=[signal.SIGINT, signal.SIGHUP],
    )


def spawn_child(order: StartOrder, files: list[int], data: str) -> int:
    """Start the process of an order in an interpreter of its own; returns its pid. Raises OSError."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = spawn(__name__, ["--data", data], theirs)
        theirs.close()
        send_message(ours, order, files)
    return pid


def run_child(order: StartOrder, files: Mapping[str, int], *, parent: int | None) -> NoReturn:
    """Become the process of an order. `parent`: who it dies with; None: it has a lifeline instead."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        reset_signals()
        if parent is not None:
            die_with_parent(parent, watches=sys.platform != "linux")
        set_process_name(order.name)
        close_inherited_files(set(files.values()))
        if "output" in files:
            os.dup2(files["output"], 1)
            os.dup2(files["output"], 2)
            os.close(files["output"])
        module, _, function = order.entry.partition(":")
        code = getattr(importlib.import_module(module), function)(ChildStart(order.arguments, files)) or 0
    except ConnectionError:  # its client is gone
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        logging.shutdown()
        os._exit(code)  # everything is written: tearing the interpreter down takes longer than the rest of the exit


def _main() -> None:
    """The arguments, `--data DIR`, only tell processes apart."""
    parent = os.getppid()
    limit_free_memory()
    with socket.socket(fileno=0) as connection:
        reader = MessageReader(connection)
        while not (orders := reader.receive()):
            if orders is None:
                return
    [(order, descriptors)] = orders
    assert isinstance(order, StartOrder)
    if order.own or order.leads_session:
        os.setsid()
    run_child(order, dict(zip(order.files, descriptors, strict=True)), parent=None if order.own else parent)


if __name__ == "__main__":
    _main()
