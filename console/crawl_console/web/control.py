"""Carries out the commands of operators, with the checks and the words of the command line."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import msgspec
from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from crawl_console.client import open_latest_run, send_command
from crawl_console.crawl import orders
from crawl_console.web.access import refuse, who_asks
from crawl_console.web.api import crawls_of
from crawl_console.web.watch import Watch
from crawl_engine.errors import UsageError, suggest

_SENT = ("pause", "resume", "cancel", "drain", "kill", "host", "scale", "reload")
"""Commands that the supervisor carries out; it checks their arguments."""
_MAX_DEPTH = 20
_MAX_INTEGER = 2**63 - 1
"""What a store can hold."""
_MOST_UNDONE = 20_000
"""The ends of more jobs than these are not kept to take their retry back."""

Order = Callable[[Watch, dict[str, Any], str], tuple[int, dict[str, Any]]]
"""Gets the watch of the data dir, the arguments, and who gave it; returns the status of the answer, and the answer."""


class _Retry(Struct, forbid_unknown_fields=True):
    match: str | None = None
    state: list[Literal["failed", "skipped", "done", "incomplete"]] = []
    run: str | None = None
    jobs: list[int] = []


class _Exclude(Struct, forbid_unknown_fields=True):
    match: str
    dry_run: bool = False


class _Undo(Struct, forbid_unknown_fields=True):
    number: int


class _Seed(Struct, forbid_unknown_fields=True):
    group: str
    urls: list[str]


async def command(request: Request) -> Response:
    """`{"ok", "text"}`, or the object that the command prints with `--json`."""
    name, watch = request.path_params["name"], crawls_of(request).find(request)
    order = ORDERS.get(name)
    if order is None:
        return refuse(
            404, f"no command '{name[:60]}'{suggest(name, list(ORDERS))}", f"Use one of: {', '.join(ORDERS)}."
        )
    status, answer = await give(request, order, watch, await _read_arguments(request))
    return JSONResponse(answer, status)


async def give(
    request: Request, order: Order, watch: Watch, arguments: dict[str, Any], run: str | None = None
) -> tuple[int, dict[str, Any]]:  # fmt: skip
    """Have an order carried out, of which a few are at once: the status of the answer, and the answer.

    `run`: the run that it is about. Raises UsageError if that is no longer the latest one.
    """
    async with crawls_of(request).orders:
        if run is not None:
            await run_in_threadpool(_check_run, watch, run)
        return await run_in_threadpool(order, watch, arguments, who_asks(request.scope))


def _check_run(watch: Watch, id_: str) -> None:
    with open_latest_run(watch.data) as (_, run):
        if run.id != id_:
            raise UsageError(f"nothing was done: the order was about run {id_}", f"Now it is run {run.id}.")


async def _read_arguments(request: Request) -> dict[str, Any]:
    """The body, a JSON object; empty: no arguments. Raises UsageError."""
    body = await request.body()
    if body and request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise UsageError("the arguments are not JSON", "Send them with `Content-Type: application/json`.")
    try:
        arguments = msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"the arguments are not a JSON object: {error}", 'Send for example {"node": "n1"}.') from error
    for name, value in arguments.items():
        _check_value(name, value)
    return arguments


def _check_value(name: str, value: Any, depth: int = 1) -> None:
    """Raise UsageError for what no store can hold."""
    if depth > _MAX_DEPTH:
        raise UsageError(f"{name[:60]}: nested too deeply", 'Send for example {"node": "n1"}.')
    if isinstance(value, int) and not -_MAX_INTEGER <= value <= _MAX_INTEGER:
        raise UsageError(f"{name[:60]}: an integer of more than 64 bits", "Send a smaller number.")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_value(name, part, depth + 1)


def _send(name: str, watch: Watch, arguments: dict[str, Any], given_by: str) -> tuple[int, dict[str, Any]]:
    done, text = send_command(watch.data, name, arguments, given_by)
    return 200 if done else 409, {"ok": done, "text": text}


def _retry(watch: Watch, arguments: dict[str, Any], given_by: str) -> tuple[int, dict[str, Any]]:
    order = _convert("retry", arguments, _Retry)
    if order.jobs and order.match is not None:
        raise UsageError("retry: jobs and a match", "Give the numbers of jobs, or a filter.")
    done = orders.retry_jobs(
        watch.data, order.match, order.state, ids=order.jobs, run_id=order.run, given_by=given_by,
        most_undone=_MOST_UNDONE,
    )  # fmt: skip
    return 200, _with_undo(watch, done)


def _exclude(watch: Watch, arguments: dict[str, Any], given_by: str) -> tuple[int, dict[str, Any]]:
    order = _convert("exclude", arguments, _Exclude)
    done = orders.exclude_jobs(watch.data, order.match, dry_run=order.dry_run, given_by=given_by)
    return 200, _with_undo(watch, done)


def _with_undo(watch: Watch, done: orders.Done) -> dict[str, Any]:
    """The answer, with the number by which `undo` takes the order back."""
    return done.answer if done.undo is None else {**done.answer, "undo": watch.undo_steps.add(done.undo)}


def _undo(watch: Watch, arguments: dict[str, Any], given_by: str) -> tuple[int, dict[str, Any]]:
    step = watch.undo_steps.take(_convert("undo", arguments, _Undo).number)
    if step is None:
        raise UsageError("undo: it was taken back, or is too old", "Only the last orders of this server can be.")
    done, text = step(given_by)
    return 200 if done else 409, {"ok": done, "text": text}


def _seed(watch: Watch, arguments: dict[str, Any], given_by: str) -> tuple[int, dict[str, Any]]:
    from crawl_engine.settings import load_settings

    order = _convert("seed", arguments, _Seed)
    if not order.urls:
        raise UsageError("no URL is given", 'Send {"group": …, "urls": ["https://…"]}.')
    seeds = ((f"urls[{number}]", url) for number, url in enumerate(order.urls))
    answer = orders.seed_urls(watch.data, order.group, seeds, load_settings({}), given_by=given_by).answer
    return 200 if answer["created"] or answer["known"] else 409, answer


def _convert(name: str, arguments: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        takes = ", ".join(field.name for field in msgspec.structs.fields(kind))
        raise UsageError(f"{name}: {error}", f"It takes {takes}.") from error


ORDERS: Mapping[str, Order] = MappingProxyType(
    {
        **{name: partial(_send, name) for name in _SENT},
        "retry": _retry,
        "exclude": _exclude,
        "seed": _seed,
        "undo": _undo,
    }
)
