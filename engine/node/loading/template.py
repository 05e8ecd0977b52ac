"""The template of loader processes: forks them, and kills each with the helpers that it started."""

import argparse
import os
import signal
import socket
from contextlib import suppress

from engine.node.extraction.board import ProgressBoard
from engine.node.extraction.limits import ExtractionLimits
from engine.node.extraction.template import ExtractionTemplate
from engine.node.loading.child import LoaderChild
from engine.runtime import log_file
from engine.runtime.child_limits import (
    become_first_victim,
    close_inherited_files,
    die_with_parent,
    exit_at_end,
    reset_signals,
    set_process_name,
)


class LoaderTemplate(ExtractionTemplate):
    """Each process leads a group of its own: a helper that users' code started, such as a browser, ends with it."""

    def become_child(self, descriptor: int, slot: int, parent: int) -> None:  # noqa: ARG002
        """Be a loader process, in the fork of the template with this pid; never returns."""
        with exit_at_end():
            signal.set_wakeup_fd(-1)
            reset_signals()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)  # helpers inherit what is ignored
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a helper that has ended is an exception
            os.setpgid(0, 0)
            die_with_parent(parent, watches=True)
            set_process_name("loader")
            close_inherited_files({descriptor})
            os.set_inheritable(descriptor, False)
            become_first_victim()  # the node watches its memory: a limit of addresses would break the helpers
            LoaderChild(socket.socket(fileno=descriptor)).serve()

    def kill(self, pid: int) -> None:
        """Kill a process that is not reaped, and its helpers."""
        self.clean_up(pid)
        super().kill(pid)  # it may not lead its group yet

    def clean_up(self, pid: int) -> None:
        """End the helpers that a process has left."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="crawl-console loader")
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--board", type=int, required=True)
    parser.add_argument("--limits", type=ExtractionLimits.from_json, required=True)
    options = parser.parse_args()
    log_file.log_to_stderr()
    with exit_at_end():
        os.setpgid(0, 0)  # who kills the group of the node must leave the time to kill those of the loaders
        reset_signals()
        set_process_name("loader-tmpl")
        close_inherited_files({options.control, options.board})
        with socket.socket(fileno=options.control) as control:
            LoaderTemplate(control, ProgressBoard(options.board), options.limits).serve()


if __name__ == "__main__":
    _main()
