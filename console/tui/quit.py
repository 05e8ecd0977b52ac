"""Leaving the console: what is asked first, what the program ends with, and what is shown when the run is over."""

from typing import TYPE_CHECKING, Any

from console.format import plural
from console.tui.screens.dialogs import quit_dialog
from console.tui.state.source import PollResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

    from console.tui.options import ConsoleOptions
    from console.tui.screens.base import View

    _Base = App[int]
else:
    _Base = object

_ENDED_STATES = ("DONE", "CANCELLED", "KILLED", "FAILED")


class QuitFlow(_Base):
    """Mixed into the app; uses its `look` and `setup`, and gives its orders."""

    if TYPE_CHECKING:
        last_poll: PollResult | None
        options: ConsoleOptions
        send_command: Callable[[str, dict[str, Any]], None]
        push_view: Callable[[View], None]

    quit_when_run_ends = False
    """Whether to leave as soon as the run is over."""
    _was_running = False
    _summary_shown = False

    def act_suspend(self) -> None:
        """To the shell, until `fg`."""
        self.action_suspend_process()

    def act_quit(self) -> None:
        """Ask what shall become of the run, where that is ours to say."""
        if len(self.screen_stack) > 1:
            self.screen.dismiss()
            return
        look = self.last_poll
        if look is None or look.supervisor_pid is None or self.options.read_only or not self.options.owner:
            self.close_console()
            return
        nodes = sum(node.pid is not None for node in look.snapshot.nodes)
        lines = [
            f"The supervisor (pid {look.supervisor_pid}) runs {plural(nodes, 'node')};"
            f" {plural(look.snapshot.jobs['taken'], 'job')} in flight.",
            "Detach leaves all that running. Stop ends it in order, Kill at once.",
        ]
        self.push_screen(quit_dialog(lines), self._apply_quit_choice)

    def _apply_quit_choice(self, how: str | None) -> None:
        if how == "detach":
            self.close_console()
        elif how in ("stop", "kill"):
            self.quit_when_run_ends = True
            self.send_command("cancel" if how == "stop" else "kill", {})

    def close_console(self) -> None:
        """End the console; the run is left as it is."""
        self.exit(return_code=self.run_exit_code())

    def run_exit_code(self) -> int:
        """What the program ends with: how the run ended, where it is over; else 0."""
        run = self.last_poll.snapshot.run if self.last_poll else None
        if (
            self.last_poll is None
            or run is None
            or run.state not in _ENDED_STATES
            or self.options.read_only
            or not self._run_observed
        ):
            return 0
        if run.state == "DONE":
            return 1 if self.last_poll.snapshot.jobs["failed"] > self.options.max_failed else 0
        if run.state == "CANCELLED":
            return 0 if (run.reason or "").startswith("--max") else 143
        return 137 if run.state == "KILLED" else 3

    @property
    def _run_observed(self) -> bool:
        """Whether the run lived while we looked; one that was begun from here may have been too quick to be seen."""
        return self._was_running or self.options.owner

    def handle_run_end(self, look: PollResult) -> None:
        """Once the run is over: show how it ended, or leave where that was asked."""
        run = look.snapshot.run
        if look.supervisor_pid is not None:
            self._was_running = True
        elif run is not None and self._run_observed and run.state in _ENDED_STATES and not self._summary_shown:
            self._summary_shown = True
            if self.quit_when_run_ends:
                self.close_console()
            else:
                from console.tui.screens.summary import SummaryView

                self.push_view(SummaryView())
