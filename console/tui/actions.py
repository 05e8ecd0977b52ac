"""What keys do wherever the operator is: order, ask first, freeze, look for help."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from console.format import plural
from console.tui.bindings import KEYS, PLAIN
from console.tui.screens.dialogs import confirm
from console.tui.screens.help import KeyPanel
from console.tui.state.source import Look
from engine.errors import CrawlError
from engine.store.db.filter import RETRIED, Filter, Words
from engine.store.tables.events import Event

if TYPE_CHECKING:
    from textual.app import App

    _Base = App[int]
else:
    _Base = object


class Deeds(_Base):
    """Mixed into the app; uses its `look`, `setup`, `orders` and views."""

    if TYPE_CHECKING:
        from console.tui.options import Setup
        from console.tui.screens.base import View
        from console.tui.state.control import Orders
        from console.tui.widgets.bars import Hints
        from console.tui.widgets.prompt import Prompt

        look: Look | None
        setup: Setup
        orders: Orders
        stack: list[View]
        frozen: bool
        hints: Hints
        prompt: Prompt

        say: Callable[..., None]
        go: Callable[[str], None]
        pop: Callable[[], None]
        push: Callable[[View], None]
        reask: Callable[[], None]
        aside: Callable[[Callable[[], Any]], None]
        aside_told: Callable[..., None]
        _show: Callable[[], None]
        _show_frame: Callable[[], None]

    _pending = 0

    # --- orders

    def order(self, name: str, arguments: dict[str, Any]) -> None:
        """Give an order on a worker thread, and toast the answer."""
        if self._obeyed(name) is None:
            return
        what = " ".join([name, *map(str, arguments.values())])
        self._work(what, lambda: self.orders.give(name, arguments))

    def _work(self, what: str, deed: Callable[[], tuple[bool, str]]) -> None:
        self._wait(what)
        self.aside(lambda: self._do(what, deed))

    def _do(self, what: str, deed: Callable[[], tuple[bool, str]]) -> None:
        try:
            done, answer = deed()
        except CrawlError as error:
            done, answer = False, f"{error.what}. {error.remedy}"
        except Exception as error:  # an order that fails must not end the console
            done, answer = False, f"{type(error).__name__}: {error}"
        self.aside_told(self._answered, done, f"{what}: {answer}")

    def _answered(self, done: bool, answer: str) -> None:
        self._wait("")
        self.say(answer, "information" if done else "error")
        self.reask()

    def _wait(self, what: str) -> None:
        self._pending += 1 if what else -1
        self.hints.note = f"{what} …" if what else ("…" if self._pending else "")
        self.hints.redraw()

    def ask_first(self, title: str, lines: list[str], yes: str, then: Any, *, grave: bool = False) -> None:
        """Do it only where the operator says yes."""
        self.push_screen(
            confirm(title, lines, yes, grave=grave), lambda answer: then() if answer == "yes" else None
        )  # fmt: skip

    def act_cancel(self) -> None:
        """Cancel the run in order."""
        look = self._obeyed("cancel")
        if look is None:
            return
        jobs = look.snapshot.jobs
        self.ask_first(
            "Cancel the run",
            [
                f"{plural(jobs['taken'], 'job')} in flight may finish within the grace time.",
                f"{plural(jobs['ready'], 'job')} stay ready; every committed row reaches the files.",
                "`crawl-console run` goes on where it stopped.",
            ],
            "Cancel the run",
            lambda: self.order("cancel", {}),
        )

    def act_kill(self) -> None:
        """Kill the run: no node is marked."""
        self.confirm_kill([])

    def confirm_kill(self, nodes: list[str]) -> None:
        """Kill nodes, or the run where none is named; says what is lost."""
        look = self._obeyed("kill")
        if look is None:
            return
        held = {node["id"]: node["in_flight"] for node in look.snapshot.nodes}
        if nodes:
            count = sum(held.get(name, 0) for name in nodes)
            lines = [
                f"{', '.join(nodes)} {'dies' if len(nodes) == 1 else 'die'} at once.",
                f"{plural(count, 'job')} in flight are lost and done anew by others.",
                "Committed rows are safe. A new node replaces each.",
            ]

            def kill_each() -> None:
                for name in nodes:
                    self.order("kill", {"node": name})

            self.ask_first(
                f"Kill {plural(len(nodes), 'node')}", lines, "Kill",
                kill_each, grave=True,
            )  # fmt: skip
            return
        lines = [
            f"Every process dies at once; {plural(sum(held.values()), 'job')} in flight are lost.",
            "They are done anew, and rows not yet in the files get there, when it is resumed.",
            "c cancels in order instead.",
        ]
        self.ask_first("Kill the run", lines, "Kill the run", lambda: self.order("kill", {}), grave=True)

    def act_pause(self) -> None:
        """Pause the intake of the run, or resume it."""
        look = self._obeyed("pause")
        if look is not None and look.snapshot.run is not None:
            self.order("resume" if "operator" in (look.snapshot.run.paused or "") else "pause", {})

    def act_add(self) -> None:
        """One node more."""
        self._scale(1)

    def act_retire(self) -> None:
        """One node less: the last one ends in order."""
        self._scale(-1)

    def _scale(self, by: int) -> None:
        look = self._obeyed("scale")
        if look is not None:
            runners = sum(n["role"] in ("RUNNER", "INITIAL") and n["pid"] is not None and n["state"] != "DRAINING"
                          for n in look.snapshot.nodes)  # fmt: skip
            if runners + by < 1:
                self.say("the last node stays: c cancels the run", "warning")
            else:
                self.order("scale", {"count": runners + by})

    def retry(self, ids: Sequence[int], wanted: Filter, *, marked: bool = False) -> None:
        """Make jobs READY again: those named, else all that match; asks first, with their number.

        Without a state in the filter that means the FAILED ones, or where all are `marked` whatever has ended.
        """
        if not ids and not wanted.states.wanted:
            wanted = replace(wanted, states=Words(RETRIED if marked else ("failed",), wanted.states.unwanted))
        if ids:
            self._confirm_retry(len(ids), ids, wanted)
            return
        self._wait("counting")
        self.aside(lambda: self._count(wanted))

    def _count(self, wanted: Filter) -> None:
        try:
            count = self.orders.count(wanted)
        except CrawlError as error:
            self.aside_told(self._answered, False, f"retry: {error.what}. {error.remedy}")
        else:
            self.aside_told(self._wait, "")
            self.aside_told(self._confirm_retry, count, (), wanted)

    def _confirm_retry(self, count: int, ids: Sequence[int], wanted: Filter) -> None:
        if not count:
            self.say(f"retry: no {' or '.join(wanted.states.wanted)} job matches", "warning")
            return
        which = "marked" if ids else f"that match {wanted.text or ' '.join(f'state:{s}' for s in wanted.states.wanted)}"
        self.ask_first(
            f"Retry {plural(count, 'job')}",
            [f"{plural(count, 'job')} {which} become READY again, as new; what they gave is taken back."],
            f"Retry {count}",
            lambda: self._work("retry", lambda: self._retried(self.orders.retry(wanted, ids))),
        )

    def _retried(self, count: int) -> tuple[bool, str]:
        alive = self.look is not None and self.look.supervisor is not None
        then = "" if alive else "; `crawl-console run` goes on with them"
        return True, f"{plural(count, 'job')} READY again{then}"

    def act_reload(self) -> None:
        """Read the defs again."""
        if self._obeyed("reload") is not None:
            self.order("reload", {})

    def _obeyed(self, verb: str) -> Look | None:
        """The look, where a supervisor is alive to obey."""
        if self.look is None or self.look.supervisor is None:
            self.say(f"{verb}: no supervisor is running; `crawl-console run` starts one", "warning")
            return None
        return self.look

    # --- looking

    def push_jobs(self, wanted: Filter) -> None:
        """Into the jobs that match."""
        from console.tui.screens.jobs import JobsView

        self.push(JobsView(wanted))

    def push_job_of(self, event: Event) -> None:
        """Into the job an event is about."""
        from console.tui.screens.job import JobView

        if event.job is None:
            self.say("this line is about no job")
        else:
            self.push(JobView(event.job, "Error" if event.level == "ERROR" else "Attempts"))

    def export_jobs(self, wanted: Filter) -> None:
        """All jobs that match, as a CSV file."""
        path = self.setup.data / "exports" / f"jobs-{time.strftime('%Y%m%d-%H%M%S')}.csv"
        self._work("export", lambda: (True, f"{self.orders.export(wanted, path)} jobs: {path}"))

    def act_back(self) -> None:
        """Out of what was opened."""
        self.pop()

    def act_freeze(self) -> None:
        """The display stands still, or moves again."""
        self.frozen = not self.frozen
        self._show()
        self._show_frame()

    def act_help(self) -> None:
        """The key panel."""
        plain = {key.id: PLAIN[key.shown] for key in KEYS if self.setup.ascii_only and key.shown in PLAIN}
        self.push_screen(KeyPanel({**plain, **self.setup.config.keys}))

    def act_palette(self) -> None:
        """The command palette."""
        from console.tui.palette import choices
        from console.tui.screens.palette import PalettePanel

        self.push_screen(PalettePanel(choices(self)), lambda c: c.deed() if c is not None else None)

    def act_zoom(self) -> None:
        """There is but one pane here."""
        self.say("one pane fills the screen already")
