"""What keys do wherever the operator is: order, ask first, freeze, look for help."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from console.format import plural
from console.tui.bindings import ASCII_KEY_LABELS, KEYS
from console.tui.screens.dialogs import confirm_dialog
from console.tui.screens.help import KeyPanel
from console.tui.state.source import PollResult
from engine.errors import CrawlError
from engine.store.db.filter import RETRYABLE_STATES, GlobFilter, JobFilter
from engine.store.tables.events import Event

if TYPE_CHECKING:
    from textual.app import App

    _Base = App[int]
else:
    _Base = object


class Actions(_Base):
    """Mixed into the app; uses its `look`, `setup`, `orders` and views."""

    if TYPE_CHECKING:
        from console.tui.options import ConsoleOptions
        from console.tui.screens.base import View
        from console.tui.state.control import ControlClient
        from console.tui.widgets.bars import HintBar
        from console.tui.widgets.prompt import Prompt

        last_poll: PollResult | None
        options: ConsoleOptions
        control_client: ControlClient
        view_stack: list[View]
        frozen: bool
        hints: HintBar
        prompt: Prompt

        show_toast: Callable[..., None]
        switch_to: Callable[[str], None]
        pop_view: Callable[[], None]
        push_view: Callable[[View], None]
        refresh_query: Callable[[], None]
        run_in_thread: Callable[[Callable[[], Any]], None]
        call_in_app: Callable[..., None]
        _update_screen: Callable[[], None]
        _update_bars: Callable[[], None]

    _pending_commands = 0

    # --- orders

    def send_command(self, name: str, arguments: dict[str, Any]) -> None:
        """Give an order on a worker thread, and toast the answer."""
        if self._require_supervisor(name) is None:
            return
        what = " ".join([name, *map(str, arguments.values())])
        self._run_command(what, lambda: self.control_client.send(name, arguments))

    def _run_command(self, what: str, deed: Callable[[], tuple[bool, str]]) -> None:
        self._set_pending(what)
        self.run_in_thread(lambda: self._execute(what, deed))

    def _execute(self, what: str, deed: Callable[[], tuple[bool, str]]) -> None:
        try:
            done, answer = deed()
        except CrawlError as error:
            done, answer = False, f"{error.message}. {error.remedy}"
        except Exception as error:  # an order that fails must not end the console
            done, answer = False, f"{type(error).__name__}: {error}"
        self.call_in_app(self._show_answer, done, f"{what}: {answer}")

    def _show_answer(self, done: bool, answer: str) -> None:
        self._set_pending("")
        self.show_toast(answer, "information" if done else "error")
        self.refresh_query()

    def _set_pending(self, what: str) -> None:
        self._pending_commands += 1 if what else -1
        self.hints.note = f"{what} …" if what else ("…" if self._pending_commands else "")
        self.hints.redraw()

    def confirm_then(self, title: str, lines: list[str], yes: str, then: Any, *, destructive: bool = False) -> None:
        """Do it only where the operator says yes."""
        self.push_screen(
            confirm_dialog(title, lines, yes, destructive=destructive), lambda answer: then() if answer == "yes" else None
        )  # fmt: skip

    def act_cancel(self) -> None:
        """Cancel the run in order."""
        look = self._require_supervisor("cancel")
        if look is None:
            return
        jobs = look.snapshot.jobs
        self.confirm_then(
            "Cancel the run",
            [
                f"{plural(jobs['taken'], 'job')} in flight may finish within the grace time.",
                f"{plural(jobs['ready'], 'job')} stay ready; every committed row reaches the files.",
                "`crawl-console run` goes on where it stopped.",
            ],
            "Cancel the run",
            lambda: self.send_command("cancel", {}),
        )

    def act_kill(self) -> None:
        """Kill the run: no node is marked."""
        self.confirm_kill([])

    def confirm_kill(self, nodes: list[str]) -> None:
        """Kill nodes, or the run where none is named; says what is lost."""
        look = self._require_supervisor("kill")
        if look is None:
            return
        held = {node.id: node.in_flight for node in look.snapshot.nodes}
        if nodes:
            count = sum(held.get(name, 0) for name in nodes)
            lines = [
                f"{', '.join(nodes)} {'dies' if len(nodes) == 1 else 'die'} at once.",
                f"{plural(count, 'job')} in flight are lost and done anew by others.",
                "Committed rows are safe. A new node replaces each.",
            ]

            def kill_each() -> None:
                for name in nodes:
                    self.send_command("kill", {"node": name})

            self.confirm_then(
                f"Kill {plural(len(nodes), 'node')}", lines, "Kill",
                kill_each, destructive=True,
            )  # fmt: skip
            return
        lines = [
            f"Every process dies at once; {plural(sum(held.values()), 'job')} in flight are lost.",
            "They are done anew, and rows not yet in the files get there, when it is resumed.",
            "c cancels in order instead.",
        ]
        self.confirm_then(
            "Kill the run", lines, "Kill the run", lambda: self.send_command("kill", {}), destructive=True
        )

    def act_pause(self) -> None:
        """Pause the intake of the run, or resume it."""
        look = self._require_supervisor("pause")
        if look is not None and look.snapshot.run is not None:
            self.send_command("resume" if "operator" in (look.snapshot.run.paused or "") else "pause", {})

    def act_add(self) -> None:
        """One node more."""
        self._scale_nodes(1)

    def act_retire(self) -> None:
        """One node less: the last one ends in order."""
        self._scale_nodes(-1)

    def _scale_nodes(self, by: int) -> None:
        look = self._require_supervisor("scale")
        if look is not None:
            runners = sum(n.role in ("RUNNER", "INITIAL") and n.pid is not None and n.state != "DRAINING"
                          for n in look.snapshot.nodes)  # fmt: skip
            if runners + by < 1:
                self.show_toast("the last node stays: c cancels the run", "warning")
            else:
                self.send_command("scale", {"count": runners + by})

    def retry(self, ids: Sequence[int], wanted: JobFilter, *, marked: bool = False) -> None:
        """Make jobs READY again: those named, else all that match; asks first, with their number.

        Without a state in the filter that means the FAILED ones, or where all are `marked` whatever has ended.
        """
        if not ids and not wanted.states.include:
            wanted = replace(
                wanted, states=GlobFilter(RETRYABLE_STATES if marked else ("failed",), wanted.states.exclude)
            )
        if ids:
            self._confirm_retry(len(ids), ids, wanted)
            return
        self._set_pending("counting")
        self.run_in_thread(lambda: self._count_then_confirm(wanted))

    def _count_then_confirm(self, wanted: JobFilter) -> None:
        try:
            count = self.control_client.count_jobs(wanted)
        except CrawlError as error:
            self.call_in_app(self._show_answer, False, f"retry: {error.message}. {error.remedy}")
        else:
            self.call_in_app(self._set_pending, "")
            self.call_in_app(self._confirm_retry, count, (), wanted)

    def _confirm_retry(self, count: int, ids: Sequence[int], wanted: JobFilter) -> None:
        if not count:
            self.show_toast(f"retry: no {' or '.join(wanted.states.include)} job matches", "warning")
            return
        which = (
            "marked" if ids else f"that match {wanted.text or ' '.join(f'state:{s}' for s in wanted.states.include)}"
        )
        self.confirm_then(
            f"Retry {plural(count, 'job')}",
            [f"{plural(count, 'job')} {which} become READY again, as new; what they gave is taken back."],
            f"Retry {count}",
            lambda: self._run_command("retry", lambda: self._retry_answer(self.control_client.retry_jobs(wanted, ids))),
        )

    def _retry_answer(self, count: int) -> tuple[bool, str]:
        alive = self.last_poll is not None and self.last_poll.supervisor_pid is not None
        then = "" if alive else "; `crawl-console run` goes on with them"
        return True, f"{plural(count, 'job')} READY again{then}"

    def act_reload(self) -> None:
        """Read the defs again."""
        if self._require_supervisor("reload") is not None:
            self.send_command("reload", {})

    def _require_supervisor(self, verb: str) -> PollResult | None:
        """The look, where a supervisor is alive to obey."""
        if self.last_poll is None or self.last_poll.supervisor_pid is None:
            self.show_toast(f"{verb}: no supervisor is running; `crawl-console run` starts one", "warning")
            return None
        return self.last_poll

    # --- looking

    def push_jobs_view(self, wanted: JobFilter) -> None:
        """Into the jobs that match."""
        from console.tui.screens.jobs import JobsView

        self.push_view(JobsView(wanted))

    def push_event_job(self, event: Event) -> None:
        """Into the job an event is about."""
        from console.tui.screens.job import JobView

        if event.job is None:
            self.show_toast("this line is about no job")
        else:
            self.push_view(JobView(event.job, "Error" if event.level == "ERROR" else "Attempts"))

    def export_jobs(self, wanted: JobFilter) -> None:
        """All jobs that match, as a CSV file."""
        path = self.options.data / "exports" / f"jobs-{time.strftime('%Y%m%d-%H%M%S')}.csv"
        self._run_command("export", lambda: (True, f"{self.control_client.export_jobs(wanted, path)} jobs: {path}"))

    def act_back(self) -> None:
        """Out of what was opened."""
        self.pop_view()

    def act_freeze(self) -> None:
        """The display stands still, or moves again."""
        self.frozen = not self.frozen
        self._update_screen()
        self._update_bars()

    def act_help(self) -> None:
        """The key panel."""
        plain = {
            key.id: ASCII_KEY_LABELS[key.label]
            for key in KEYS
            if self.options.ascii_only and key.label in ASCII_KEY_LABELS
        }
        self.push_screen(KeyPanel({**plain, **self.options.config.keys}))

    def act_palette(self) -> None:
        """The command palette."""
        from console.tui.palette import palette_commands
        from console.tui.screens.palette import PalettePanel

        self.push_screen(PalettePanel(palette_commands(self)), lambda c: c.action() if c is not None else None)

    def act_zoom(self) -> None:
        """There is but one pane here."""
        self.show_toast("one pane fills the screen already")
