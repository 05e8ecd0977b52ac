"""Orders by forms, which work without script: what is asked before one, and what was answered."""

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from crawl_console.filter_syntax import job_filter, parse
from crawl_console.format import plural
from crawl_console.web.access import own_path, who_asks
from crawl_console.web.api import crawls_of, read_form
from crawl_console.web.control import ORDERS, give
from crawl_console.web.given import GivenOrder, UndoForm
from crawl_console.web.pages.frame import SAID, frame
from crawl_console.web.pages.grids import link
from crawl_console.web.pages.views import page
from crawl_console.web.render import render
from crawl_console.web.watch import CrawlView, Watch
from crawl_console.words.node_table import count_runners
from crawl_console.words.questions import (
    Confirmation,
    cancel_question,
    exclude_question,
    kill_nodes_question,
    kill_run_question,
    retry_job_question,
    retry_question,
)
from crawl_engine.errors import CrawlError, UsageError
from crawl_engine.settings.values import parse_seconds
from crawl_engine.store.db.filter import RETRYABLE_STATES, JobFilter
from crawl_engine.store.transactions.exclude import queued_filter

_ASKED = ("cancel", "kill", "retry", "exclude")
"""Orders that are asked before they are given."""
_OPPOSITES = {"pause": "resume", "resume": "pause"}


@page
async def ask(request: Request) -> Response:
    """What an order does and what is lost, with the button that gives it; of a host also its values."""
    watch = crawls_of(request).find(request)
    view = await watch.current()
    name = request.path_params["name"]
    given = {key: value for key, value in request.query_params.items() if key not in ("data", "back")}
    top = frame(request, watch, view, name.capitalize())
    back = _local(request.query_params.get("back", "")) or link("/crawl", data=view.name)
    if name == "host":
        host = await _read_host(watch, view, given.get("host", ""))
        return render(request, "host.html", top=top, host=host, back=back)
    question = await _question(watch, view, name, given)
    return render(request, "ask.html", top=top, question=question, name=name, arguments=given, back=back)


@page
async def order(request: Request) -> Response:
    """Give an order, once for each form, and go back to the page, which says what came of it.

    One that must be asked first is asked if the form does not say `sure`.
    """
    watch = crawls_of(request).find(request)
    name = request.path_params["name"]
    fields = await read_form(request)
    back = _local(fields.pop("back", "")) or link("/crawl", data=watch.name)
    key, run, sure = fields.pop("key", ""), fields.pop("run", None), fields.pop("sure", "") == "yes"
    order_ = ORDERS.get(name)
    if order_ is None:
        raise UsageError(f"no command '{name[:60]}'", f"Use one of: {', '.join(ORDERS)}.")
    if name in _ASKED and not sure:
        return RedirectResponse(link(f"/ask/{name}", **{**fields, "data": watch.name, "back": back}), 303)
    view = await watch.current()

    async def give_now(id_: str) -> GivenOrder:
        undo = None
        try:
            if key and not watch.given.is_of_now(key):
                raise UsageError("nothing was done: the server was started again since", "Give the order again.")
            status, answer = await give(request, order_, watch, _arguments(name, fields), run)
            done, lines = status == 200, _describe(name, answer)
            undo = _undo(name, fields, answer, view) if done else None
        except CrawlError as error:
            done, lines = False, [f"{error.message}. {error.remedy}"]
        return GivenOrder(id_, [f"{name}: {lines[0]}", *lines[1:]], done, who_asks(request.scope), time.time(), undo)

    given = await watch.given.give(key, (name, tuple(sorted(fields.items()))), give_now)
    watch.expire()
    return RedirectResponse(_with_said(back, given.id), 303)


def _with_said(back: str, id_: str) -> str:
    path, _, query = back.partition("?")
    given = {name: value for name, value in parse_qsl(query, max_num_fields=50) if name != SAID}
    return link(path, **given, **{SAID: id_})


async def _question(watch: Watch, view: CrawlView, name: str, given: Mapping[str, str]) -> Confirmation:
    snapshot = view.poll.snapshot
    if name == "cancel":
        return cancel_question(snapshot)
    if name == "kill":
        node = given.get("node")
        return (
            kill_nodes_question(snapshot, [node]) if node else kill_run_question(snapshot, "Cancel ends it gracefully.")
        )
    run, match = snapshot.run, given.get("match", "").strip()
    if run is None:
        raise UsageError("there is no run yet", "Start one with `crawl-console run`.")
    seq = run.seq
    if name == "retry" and "job" in given:
        return await _retry_one(watch, _count("job", given["job"]))
    if name == "retry":
        filter_ = _retried(match)
        count = await watch.ask(lambda source: source.count_jobs(seq, filter_))
        return retry_question(count, filter_)
    if name == "exclude":
        if not match:
            raise UsageError("exclude: no filter", "Say which queued jobs, as in /calendar/.")
        queued = queued_filter(parse(match))
        count = await watch.ask(lambda source: source.count_jobs(seq, queued))
        return exclude_question(count, queued, "The button behind it takes it back.")
    raise UsageError(f"'{name[:60]}' is not asked", "Give it from the page of the crawl.")


async def _retry_one(watch: Watch, id_: int) -> Confirmation:
    detail = await watch.ask(lambda source: source.job(id_))
    if detail is None:
        raise UsageError(f"there is no job {id_}", "The page Jobs lists them.")
    if detail.line.state.lower() not in RETRYABLE_STATES:
        raise UsageError(f"job {id_} is {detail.line.state}", "Only a job that has ended can be retried.")
    return retry_job_question(id_)


def _retried(match: str) -> JobFilter:
    """What `retry` selects: jobs of the states that the filter names, failed ones without."""
    states = parse(match).states.include
    return job_filter(match or None, states or ("failed",))


async def _read_host(watch: Watch, view: CrawlView, name: str) -> Any:
    run = view.poll.snapshot.run
    host = await watch.ask(lambda source: source.host(run.seq, name)) if run is not None else None
    if host is None:
        raise UsageError(f"no host '{name[:200]}' in this run", "The page Hosts lists them.")
    return host


def _arguments(name: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a form as the arguments of an order. Raises UsageError."""
    given: dict[str, Any] = {key: value.strip() for key, value in fields.items() if value.strip()}
    if name == "host":
        if "delay" in given:
            given["delay"] = _number("delay", given["delay"])
        if "concurrency" in given:
            given["concurrency"] = _count("concurrency", given["concurrency"])
        given |= {key: given[key] == "yes" for key in ("paused", "reset") if key in given}
    elif name == "scale":
        given["count"] = _count("nodes", given.get("count", ""))
    elif name == "seed":
        given["urls"] = given.get("urls", "").split()
    elif name == "undo":
        given["number"] = _count("undo", given.get("number", ""))
    elif name == "retry" and "job" in given:
        given["jobs"] = [_count("job", given.pop("job"))]
    elif name == "retry":
        match = given.get("match", "")
        given["state"] = list(parse(match).states.include) or ["failed"]
    return given


def _number(name: str, text: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError:
        raise UsageError(f"{name}: '{text[:60]}' is not a time", "Write seconds, or 500ms, 2s, 5m.") from None


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"{name}: '{text[:60]}' is not a number", "Write 1 or more.")
    return int(text)


def _describe(name: str, answer: Mapping[str, Any]) -> Sequence[str]:
    """An answer in words: that of the supervisor, or the counts of an order that needs none."""
    if "text" in answer:
        return [str(answer["text"])]
    if name == "retry":
        return [f"{plural(answer['retried'], 'job')} READY again"]
    if name == "exclude":
        return [f"{plural(answer['excluded'], 'job')} SKIPPED"]
    counts = [f"{count:,} {key}" for key, count in answer.items() if isinstance(count, int)]
    return [", ".join(counts), *map(str, answer.get("problems", ()))]


def _undo(name: str, fields: Mapping[str, str], answer: Mapping[str, Any], view: CrawlView) -> UndoForm | None:
    """`view`: the crawl before the order."""
    if "undo" in answer:
        return UndoForm("Take it back", "undo", {"number": str(answer["undo"])})
    if name == "scale":
        before = count_runners(view.poll.snapshot.nodes)
        return UndoForm(f"Go back to {before}", "scale", {"count": str(before)}) if before else None
    if name in _OPPOSITES:
        opposite = _OPPOSITES[name]
        return UndoForm(opposite.capitalize(), opposite, {key: fields[key] for key in ("sequence",) if key in fields})
    if name == "host" and "host" in fields:
        return UndoForm("Go back to the defs' values", "host", {"host": fields["host"], "reset": "yes"})
    return None


def _local(path: str) -> str:
    """A page of a crawl; empty for anything else."""
    return path if own_path(path) and path.startswith("/crawl") else ""
