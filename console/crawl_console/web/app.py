"""The web application: its routes, its templates, and what it answers where something goes wrong."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from crawl_console.web import api, control, metrics
from crawl_console.web.access import NO_TOKEN, Access, Gate, login_path, own_path, refuse
from crawl_console.web.pages import failed, forms, log, views
from crawl_console.web.render import FOLDER, render
from crawl_console.web.root_path import RootPath
from crawl_console.web.watch import Crawls
from crawl_engine.errors import CrawlError, UsageError


async def login_page(request: Request) -> Response:
    access: Access = request.app.state.access
    to = login_path(own_path(request.query_params.get("to", "")))
    closed = "" if access.token() else NO_TOKEN
    return render(request, "login.html", wrong="wrong" in request.query_params, action=to, closed=closed)


ROUTES: list[Route | Mount] = [
    Route("/health", api.health),
    Route("/status.json", api.status),
    Route("/metrics", metrics.metrics),
    Route("/events", api.events),
    Route("/login", login_page),
    Route("/login", api.login, methods=["POST"]),
    Route("/", views.crawl_list),
    Route("/crawl", views.overview),
    Route("/crawl/jobs", views.jobs),
    Route("/crawl/job", views.job),
    Route("/crawl/body", views.body),
    Route("/crawl/hosts", views.hosts),
    Route("/crawl/failed", failed.failed),
    Route("/crawl/log", log.log),
    Route("/crawl/plots", views.plots),
    Route("/crawl/runs", views.runs),
    Mount("/static", StaticFiles(directory=FOLDER / "static")),
]
CONTROL_ROUTES: list[Route | Mount] = [
    Route("/commands/{name}", control.command, methods=["POST"]),
    Route("/ask/{name}", forms.ask),
    Route("/orders/{name}", forms.order, methods=["POST"]),
]
"""With `--control` alone."""


OWN_PARTS = frozenset(route.path.split("/")[1] for route in (*ROUTES, *CONTROL_ROUTES)) - {""}
"""The first parts of all paths."""


def create_app(crawls: Crawls, access: Access, root_path: str = "", *, reads_prefix: bool = False) -> Starlette:
    """The application for these data dirs. `root_path`, `reads_prefix`: as of `RootPath`."""
    app = Starlette(
        routes=[*ROUTES, *(CONTROL_ROUTES if crawls.control else [])],
        middleware=[
            Middleware(RootPath, root_path=root_path, reads_header=reads_prefix, taken=OWN_PARTS),
            Middleware(Gate, access=access, note=crawls.note),
        ],
        exception_handlers={HTTPException: _refused, CrawlError: _failed, Exception: _fault},
    )
    app.state.crawls, app.state.access = crawls, access
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = "there is no such page" if error.status_code == 404 and _is_browser(request) else error.detail
    answer = _problem(request, error.status_code, text, "")
    answer.headers.update(error.headers or {})
    return answer


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, CrawlError)
    return _problem(request, 400 if isinstance(error, UsageError) else 503, error.message, error.remedy)


async def _fault(request: Request, error: Exception) -> Response:
    return _problem(request, 500, f"a fault of the program: {type(error).__name__}", "Please report it.")


def _problem(request: Request, status: int, message: str, remedy: str) -> Response:
    """A page for browsers, a JSON object for others."""
    if _is_browser(request):
        return render(request, "problem.html", status, message=message, remedy=remedy)
    return refuse(status, message, remedy)


def _is_browser(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")
