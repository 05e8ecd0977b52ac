"""Leaving the console: what is asked first, what the program ends with, and what is shown when the run is over."""

from typing import TYPE_CHECKING, Any

from console.format import plural
from console.tui.screens.dialogs import leaving
from console.tui.state.source import Look

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

    from console.tui.options import Setup
    from console.tui.screens.base import View

    _Base = App[int]
else:
    _Base = object

_OVER = ("DONE", "CANCELLED", "KILLED", "FAILED")


class Leaving(_Base):
    """Mixed into the app; uses its `look` and `setup`, and gives its orders."""

    if TYPE_CHECKING:
        look: Look | None
        setup: Setup
        order: Callable[[str, dict[str, Any]], None]
        push: Callable[[View], None]

    leaving = False
    """Whether to leave as soon as the run is over."""
    _lived = False
    _told_end = False

    def act_suspend(self) -> None:
        """To the shell, until `fg`."""
        self.action_suspend_process()

    def act_quit(self) -> None:
        """Ask what shall become of the run, where that is ours to say."""
        if len(self.screen_stack) > 1:
            self.screen.dismiss()
            return
        look = self.look
        if look is None or look.supervisor is None or self.setup.read_only or not self.setup.owner:
            self.leave()
            return
        nodes = sum(node["pid"] is not None for node in look.snapshot.nodes)
        lines = [
            f"The supervisor (pid {look.supervisor}) runs {plural(nodes, 'node')};"
            f" {plural(look.snapshot.jobs['taken'], 'job')} in flight.",
            "Detach leaves all that running. Stop ends it in order, Kill at once.",
        ]
        self.push_screen(leaving(lines), self._leave_so)

    def _leave_so(self, how: str | None) -> None:
        if how == "detach":
            self.leave()
        elif how in ("stop", "kill"):
            self.leaving = True
            self.order("cancel" if how == "stop" else "kill", {})

    def leave(self) -> None:
        """End the console; the run is left as it is."""
        self.exit(return_code=self.code())

    def code(self) -> int:
        """What the program ends with: how the run ended, where it is over; else 0."""
        run = self.look.snapshot.run if self.look else None
        if self.look is None or run is None or run.state not in _OVER or self.setup.read_only or not self._ours:
            return 0
        if run.state == "DONE":
            return 1 if self.look.snapshot.jobs["failed"] > self.setup.max_failed else 0
        if run.state == "CANCELLED":
            return 0 if (run.reason or "").startswith("--max") else 143
        return 137 if run.state == "KILLED" else 3

    @property
    def _ours(self) -> bool:
        """Whether the run lived while we looked; one that was begun from here may have been too quick to be seen."""
        return self._lived or self.setup.owner

    def note_end(self, look: Look) -> None:
        """Once the run is over: show how it ended, or leave where that was asked."""
        run = look.snapshot.run
        if look.supervisor is not None:
            self._lived = True
        elif run is not None and self._ours and run.state in _OVER and not self._told_end:
            self._told_end = True
            if self.leaving:
                self.leave()
            else:
                from console.tui.screens.summary import EndingView

                self.push(EndingView())
