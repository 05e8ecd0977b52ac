"""Quitting: asks what happens to the run, chooses the exit code, says when the run ends."""

from crawl_console.crawl.source import PollResult
from crawl_console.format import plural
from crawl_console.tui.host import AppHost
from crawl_console.tui.screens.dialogs import quit_dialog
from crawl_engine.judge.run_verdict import verdict_of

_SUPERSEDED = 137
"""The exit code for a run that has none: its supervisor was killed, and another run took its place."""


class QuitFlow:
    """Only the console that started the supervisor asks; an attached one just closes."""

    def __init__(self, app: AppHost) -> None:
        self._app = app
        self.quit_when_run_ends = False
        self._saw_supervisor = False
        self._end_shown = False

    def quit(self) -> None:
        """Close the console; the owner of the supervisor is asked first what happens to the run."""
        poll, options = self._app.last_poll, self._app.options
        if poll is None or poll.supervisor_pid is None or options.read_only or not options.owner:
            self.close_console()
            return
        nodes = sum(node.pid is not None for node in poll.snapshot.nodes)
        lines = [
            f"The supervisor (pid {poll.supervisor_pid}) runs {plural(nodes, 'node')};"
            f" {plural(poll.snapshot.jobs['taken'], 'job')} in flight.",
            "Detach keeps it running. Stop ends it gracefully, Kill immediately.",
        ]
        self._app.open_dialog(quit_dialog(lines), self._apply_quit_choice)

    def _apply_quit_choice(self, choice: str | None) -> None:
        if choice == "detach":
            self.close_console()
        elif choice in ("stop", "kill"):
            self.quit_when_run_ends = True
            self._app.actions.send_command("cancel" if choice == "stop" else "kill", {})

    def close_console(self) -> None:
        """End the console; the run is not affected."""
        self._app.exit(return_code=self.run_exit_code())

    def run_exit_code(self) -> int:
        """The program's exit code: by how the run ended, if it ended; else 0."""
        poll, options = self._app.last_poll, self._app.options
        run = poll.snapshot.run if poll is not None else None
        if poll is None or run is None or run.state.is_open:
            return 0
        if options.read_only or not self._run_observed:
            return 0
        return _SUPERSEDED if run.exit_code is None else run.exit_code

    @property
    def _run_observed(self) -> bool:
        """Whether the run was alive while the console was open. A run started here may end before the first poll."""
        return self._saw_supervisor or self._app.options.owner

    def handle_run_end(self, poll: PollResult) -> None:
        """Once the run has ended, say so, or close the console if the operator asked for that."""
        run = poll.snapshot.run
        if poll.supervisor_pid is not None:
            self._saw_supervisor, self._end_shown = True, False
        elif run is not None and self._run_observed and not run.state.is_open and not self._end_shown:
            self._end_shown = True
            if self.quit_when_run_ends:
                self.close_console()
            else:
                word = verdict_of(poll.snapshot, is_live=False).word
                self._app.show_toast(f"run {run.id} {word}: 1 shows what it gave")
