"""The API: health, status, events, and the login of browsers."""

from urllib.parse import parse_qs

import orjson
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from crawl_console.web.access import LOGIN_SECONDS, Access, login_path, own_path, refuse, who_asks
from crawl_console.web.root_path import root_path_of
from crawl_console.web.watch import Crawls
from crawl_engine.errors import UsageError

_MAX_FIELDS = 50
_NO_HEADERS = {"X-Accel-Buffering": "no"}


def crawls_of(request: Request) -> Crawls:
    """The data dirs that are served."""
    crawls: Crawls = request.app.state.crawls
    return crawls


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form, each once. Raises UsageError."""
    try:
        fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise UsageError(f"a form of more than {_MAX_FIELDS} fields", "Send fewer.") from None
    return {name: values[0] for name, values in fields.items()}


async def health(request: Request) -> Response:
    """200 while each crawl is well, else 503 with the reason. It names nothing, since it needs no token."""
    troubles = {trouble for view in await crawls_of(request).views() if (trouble := view.trouble) is not None}
    if troubles:
        return PlainTextResponse("".join(f"{one}\n" for one in sorted(troubles)), 503)
    return PlainTextResponse("ok\n")


async def status(request: Request) -> Response:
    """The object of `status --json`; without `?data=`, of several data dirs those of `status --all --json`."""
    crawls = crawls_of(request)
    if len(crawls.watches) > 1 and "data" not in request.query_params:
        lines = {view.name: view.line for view in await crawls.views()}
        return _json(lines)
    view = await crawls.find(request).current()
    if view.error is not None:
        return refuse(503, view.error, "It is tried again each second.")
    return _json(view.status)


async def events(request: Request) -> Response:
    """What changes, as server-sent events; without `?data=`, of several data dirs their lines."""
    crawls, address = crawls_of(request), who_asks(request.scope)
    if len(crawls.watches) > 1 and "data" not in request.query_params:
        return _stream(crawls.channel.messages(crawls.channel.open(address)))
    watch = crawls.find(request)
    last = request.headers.get("last-event-id") or request.query_params.get("after") or ""
    is_id = last.isascii() and last.isdigit() and len(last) < 19
    return _stream(await watch.listen(address, int(last) if is_id else None))


async def login(request: Request) -> Response:
    """Give a browser that knows the token a cookie."""
    access: Access = request.app.state.access
    form = await read_form(request)
    to = own_path(request.query_params.get("to", ""))
    if not access.is_token(form.get("token", "").strip()):
        return RedirectResponse(login_path(to, wrong="1"), 303)
    answer = RedirectResponse(to or "/", 303)
    answer.set_cookie(
        access.cookie_name, access.new_cookie(), LOGIN_SECONDS, httponly=True, samesite="strict",
        path=f"{root_path_of(request.scope)}/",
        secure=request.headers.get("origin", "").startswith("https:"),
    )  # fmt: skip
    return answer


def _json(value: object) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")


def _stream(messages: object) -> Response:
    return StreamingResponse(messages, media_type="text/event-stream", headers=_NO_HEADERS)  # type: ignore[arg-type]
