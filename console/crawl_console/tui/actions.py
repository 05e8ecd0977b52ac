"""Key actions that change the run: sends commands, asks before destructive ones, retries jobs."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from crawl_console.crawl.orders import Retried
from crawl_console.crawl.source import PollResult
from crawl_console.filter_syntax import parse
from crawl_console.format import plural
from crawl_console.tui.host import AppHost
from crawl_console.tui.screens.dialogs import confirm_dialog, kill_dialog
from crawl_console.tui.state.control import ControlClient
from crawl_console.tui.widgets.bars import HintBar
from crawl_console.words.node_table import count_runners
from crawl_console.words.questions import (
    Confirmation,
    cancel_question,
    exclude_question,
    kill_nodes_question,
    kill_run_question,
    retry_question,
)
from crawl_engine.errors import CrawlError, UsageError
from crawl_engine.model.run import RunState
from crawl_engine.store.db.filter import RETRYABLE_STATES, GlobFilter, JobFilter
from crawl_engine.store.read.snapshot import SequenceRow
from crawl_engine.store.transactions.exclude import queued_filter

Command = Callable[[], tuple[bool, str]]
"""Sends an order; returns whether it succeeded, and the answer."""

_MAX_UNDO_STEPS = 20
_MAX_LINES = 8
"""Groups that a question lists."""


class UndoStep(NamedTuple):
    """How to take back one order."""

    label: str
    command: Command


class Actions:
    """Runs commands on worker threads; the hint bar shows what is pending, a toast shows the answer."""

    def __init__(self, app: AppHost, control_client: ControlClient, hints: HintBar) -> None:
        self._app = app
        self._control_client = control_client
        self._hints = hints
        self._pending_commands = 0
        self._undo_steps: deque[UndoStep] = deque(maxlen=_MAX_UNDO_STEPS)
        self._previewed = ""

    def send_command(
        self, name: str, arguments: dict[str, Any], *, undo: tuple[str, dict[str, Any]] | None = None
    ) -> None:
        """Send a command to the supervisor. `undo`: name and arguments of the one that takes it back."""
        if self._require_supervisor(name) is None:
            return
        label = name if name == "host" else " ".join([name, *map(str, arguments.values())])
        step = UndoStep(label, partial(self._control_client.send, *undo)) if undo is not None else None
        self._run_command(label, lambda: self._control_client.send(name, arguments), step)

    def send_to_nodes(self, name: str, nodes: Sequence[str]) -> None:
        """Send a command once for each node."""
        for node in nodes:
            self.send_command(name, {"node": node})

    def store_acknowledged(self, added: Sequence[str], removed: Sequence[str]) -> None:
        """Store which alarms the operator acknowledged, and which no longer; by key."""

        def work() -> None:
            try:
                self._control_client.acknowledge(added, removed)
            except CrawlError as error:
                self._app.call_in_app(self._app.show_toast, f"a: {error.message}. {error.remedy}", "error")

        if added or removed:
            self._app.run_in_thread(work)

    def _run_command(self, label: str, command: Command, undo: UndoStep | None = None) -> None:
        self._set_pending(label)
        self._app.run_in_thread(lambda: self._execute(label, command, undo))

    def undo(self) -> None:
        if not self._undo_steps:
            self._app.show_toast("nothing to undo: u takes back pause, host limits, scale, exclude and retry")
            return
        step = self._undo_steps.pop()
        self._run_command(f"undo {step.label}", step.command)

    def _execute(self, label: str, command: Command, undo: UndoStep | None = None) -> None:
        try:
            succeeded, answer = command()
        except CrawlError as error:
            succeeded, answer = False, f"{error.message}. {error.remedy}"
        except Exception as error:  # a command that fails must not end the console
            succeeded, answer = False, f"{type(error).__name__}: {error}"
        if succeeded and undo is not None:
            self._undo_steps.append(undo)
            answer += "; u takes it back"
        self._app.call_in_app(self._show_answer, succeeded, f"{label}: {answer}")

    def _show_answer(self, succeeded: bool, answer: str) -> None:
        self._set_pending("")
        self._app.show_toast(answer, "information" if succeeded else "error")
        self._app.navigation.refresh_query()

    def _set_pending(self, label: str) -> None:
        """Show a command as pending; an empty label ends one."""
        self._pending_commands += 1 if label else -1
        self._hints.note = f"{label} …" if label else ("…" if self._pending_commands else "")
        self._hints.redraw()

    def confirm_then(
        self, title: str, lines: list[str], yes: str, then: Callable[[], Any], *, destructive: bool = False
    ) -> None:
        self._app.open_dialog(
            confirm_dialog(title, lines, yes, destructive=destructive),
            lambda answer: then() if answer == "yes" else None,
        )

    def ask_then(self, question: Confirmation, then: Callable[[], Any]) -> None:
        title, lines, yes, destructive = question
        self.confirm_then(title, list(lines), yes, then, destructive=destructive)

    def confirm_cancel(self) -> None:
        poll = self._require_supervisor("cancel")
        if poll is None:
            return
        self.ask_then(cancel_question(poll.snapshot), lambda: self.send_command("cancel", {}))

    def confirm_kill(self, nodes: list[str]) -> None:
        """Ask, then kill these nodes, or the run if the list is empty."""
        poll = self._require_supervisor("kill")
        if poll is None:
            return
        if not nodes:
            self.ask_then(
                kill_run_question(poll.snapshot, "c cancels gracefully instead."), lambda: self.send_command("kill", {})
            )
        else:
            self.ask_then(kill_nodes_question(poll.snapshot, nodes), lambda: self.send_to_nodes("kill", nodes))

    def choose_kill(self, node: str) -> None:
        """Ask whether to kill this node or the whole run, and name the jobs that are lost."""
        poll = self._require_supervisor("kill")
        if poll is None:
            return
        in_flight = {each.id: each.in_flight for each in poll.snapshot.nodes}
        lines = [
            f"{node} stops immediately: {plural(in_flight.get(node, 0), 'job')} in flight run again elsewhere;"
            " a new node replaces it.",
            f"The whole run: all processes stop; {plural(sum(in_flight.values()), 'job')} in flight run again when it"
            " resumes.",
        ]
        arguments = {"node": {"node": node}, "run": {}}

        def kill(answer: str | None) -> None:
            if answer in arguments:
                self.send_command("kill", arguments[answer])

        self._app.open_dialog(kill_dialog(node, lines), kill)

    def restart_supervisor(self) -> None:
        """Ask, then start a supervisor that resumes the run; only if no supervisor is alive."""
        poll, start = self._app.last_poll, self._app.options.start_supervisor
        if poll is not None and poll.supervisor_pid is not None:
            self._app.show_toast("R restarts a node on screen 1 (Nodes); the supervisor is alive", "warning")
        elif start is None or poll is None or poll.snapshot.run is None:
            self._app.show_toast("`crawl-console run` resumes the run", "warning")
        else:
            run = poll.snapshot.run
            order = "begins a new run" if run.state is RunState.DONE else f"resumes run {run.id} ({run.state})"
            lines = [f"A supervisor starts, and {order}."]
            self.confirm_then("Start the supervisor", lines, "Start", lambda: self._run_command("start", start))

    def toggle_pause(self) -> None:
        poll = self._require_supervisor("pause")
        if poll is not None and poll.snapshot.run is not None:
            order, opposite = "pause", "resume"
            if "operator" in (poll.snapshot.run.paused or ""):
                order, opposite = opposite, order
            self.send_command(order, {}, undo=(opposite, {}))

    def toggle_sequence(self, sequence: SequenceRow) -> None:
        """Pause a sequence, or resume it."""
        order, opposite = ("resume", "pause") if sequence.paused else ("pause", "resume")
        name = {"sequence": f"{sequence.group}@{sequence.host}"}
        self.send_command(order, name, undo=(opposite, name))

    def add_node(self) -> None:
        self._scale_nodes(1)

    def remove_node(self) -> None:
        """Drain the last node."""
        self._scale_nodes(-1)

    def _scale_nodes(self, change: int) -> None:
        poll = self._require_supervisor("scale")
        if poll is None:
            return
        runners = count_runners(poll.snapshot.nodes)
        if runners + change < 1:
            self._app.show_toast("this is the last node: c cancels the run", "warning")
        else:
            self.send_command("scale", {"count": runners + change}, undo=("scale", {"count": runners}))

    def reload(self) -> None:
        if self._require_supervisor("reload") is not None:
            self.send_command("reload", {})

    def publish_saved_defs(self) -> None:
        """Publish the saved defs that wait; asks first on a screen that does not show what they change."""
        poll = self._app.last_poll
        saved = poll.waiting_defs if poll is not None and self._app.publishes_at_copy else None
        if saved is None:
            self._app.show_toast("y: copy the URL or line — not here", "warning")
            return
        order = partial(self._control_client.send, "reload", {"saved": saved["hash"]})
        publish = partial(self._run_command, "publish", order)
        if self._app.navigation.shows_plan:
            publish()
        else:
            lines = [saved["text"], "Screen 5 shows what they change in stored pages."]
            self.confirm_then("Publish the saved defs", lines, "Publish", publish)

    def retry(self, ids: Sequence[int], job_filter: JobFilter, *, marked: bool = False) -> None:
        """Ask, then make jobs READY again: those with these ids, else all that match.

        A filter without a state means FAILED jobs, or with `marked` jobs in any final state.
        """
        if not ids and not job_filter.states.include:
            states = RETRYABLE_STATES if marked else ("failed",)
            job_filter = replace(job_filter, states=GlobFilter(states, job_filter.states.exclude))
        if ids:
            self._confirm_retry(len(ids), ids, job_filter)
            return
        self.count_then(job_filter, lambda count: self._confirm_retry(count, (), job_filter))

    def retry_groups(self, groups: Sequence[tuple[JobFilter, int]], lines: Sequence[str]) -> None:
        """Ask, then retry the jobs of filters, each with their number. `lines`: what they are."""
        count = sum(number for _, number in groups)
        more = [f"… {len(lines) - _MAX_LINES} more"] if len(lines) > _MAX_LINES else []

        def retry_all() -> tuple[bool, str]:
            results = [self._control_client.retry_jobs(job_filter, (), number) for job_filter, number in groups]
            ended = [job for result in results for job in result.ended]
            retried = Retried(sum(r.count for r in results), ended, max(r.at for r in results))
            return self._describe_retry(retried)

        self.confirm_then(
            f"Retry {plural(count, 'job')}",
            [*lines[:_MAX_LINES], *more, "They become READY again, as new."],
            f"Retry {count}", lambda: self._run_command("retry", retry_all),
        )  # fmt: skip

    def count_then(self, job_filter: JobFilter, then: Callable[[int], None]) -> None:
        self._set_pending("counting")

        def count() -> None:
            try:
                number = self._control_client.count_jobs(job_filter)
            except CrawlError as error:
                self._app.call_in_app(self._show_answer, False, f"{error.message}. {error.remedy}")
            else:
                self._app.call_in_app(self._set_pending, "")
                self._app.call_in_app(then, number)

        self._app.run_in_thread(count)

    def _confirm_retry(self, count: int, ids: Sequence[int], job_filter: JobFilter) -> None:
        if not count:
            self._app.show_toast(f"retry: no {' or '.join(job_filter.states.include)} job matches", "warning")
            return

        def retry_now() -> tuple[bool, str]:
            return self._describe_retry(self._control_client.retry_jobs(job_filter, ids, count))

        question = retry_question(count, job_filter, marked=bool(ids))
        self.ask_then(question, lambda: self._run_command("retry", retry_now))

    def _describe_retry(self, retried: Retried) -> tuple[bool, str]:
        poll = self._app.last_poll
        text = f"{plural(retried.count, 'job')} READY again"
        if poll is None or poll.supervisor_pid is None:
            text += "; R resumes the run"
        if retried.ended:
            self._undo_steps.append(UndoStep("retry", partial(self._control_client.undo_retry, retried)))
            text += "; u takes it back"
        return True, text

    def preview_exclusion(self, text: str) -> None:
        """Show in the hint bar how many queued jobs a filter would exclude."""
        self._previewed = text
        try:
            job_filter = queued_filter(parse(text)) if text.strip() else None
        except UsageError:
            job_filter = None
        if job_filter is None:
            self._show_preview(text, "")
            return

        def count(job_filter: JobFilter = job_filter) -> None:
            with contextlib.suppress(CrawlError):
                number = self._control_client.count_jobs(job_filter)
                note = f"enter: would exclude {plural(number, 'queued job')}"
                self._app.call_in_app(self._show_preview, text, note)

        self._app.run_in_thread(count)

    def _show_preview(self, text: str, note: str) -> None:
        if text == self._previewed:  # else more was typed meanwhile
            self._hints.note = note
            self._hints.redraw()

    def exclude(self, job_filter: JobFilter, count: int) -> None:
        """Ask, then take the queued jobs that match out of the run. `count`: how many they are now."""
        if not count:
            self._app.show_toast(f"exclude: no queued job matches {job_filter.text}", "warning")
            return
        self.ask_then(
            exclude_question(count, job_filter, "u takes it back."),
            lambda: self._run_command("exclude", lambda: self._exclude_now(job_filter)),
        )

    def _exclude_now(self, job_filter: JobFilter) -> tuple[bool, str]:
        exclusion = self._control_client.exclude_jobs(job_filter)
        self._undo_steps.append(UndoStep("exclude", partial(self._control_client.readmit_jobs, exclusion)))
        return True, f"{plural(len(exclusion.ids), 'job')} SKIPPED; u takes it back"

    def export_jobs(self, job_filter: JobFilter) -> None:
        """Write all jobs that match to a CSV file."""
        path = self._app.options.data / "exports" / f"jobs-{time.strftime('%Y%m%d-%H%M%S')}.csv"
        self._run_command(
            "export", lambda: (True, f"{plural(self._control_client.export_jobs(job_filter, path), 'job')}: {path}")
        )

    def _require_supervisor(self, command: str) -> PollResult | None:
        """The last poll if a supervisor is alive; else None, with a toast."""
        poll = self._app.last_poll
        if poll is None or poll.supervisor_pid is None:
            self._app.show_toast(f"{command}: no supervisor is running; `crawl-console run` starts one", "warning")
            return None
        return poll
