"""The web application: its routes, its templates, and what it answers where something goes wrong."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, select_autoescape
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from console.web import answers, control, metrics
from console.web.access import Access, Gate, refuse
from console.web.answers import crawls_of
from console.web.watch import Crawls
from engine.errors import CrawlError, UsageError

_FOLDER = Path(__file__).parent
_TEMPLATES = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"), autoescape=select_autoescape(default=True), auto_reload=False
)


def render(_request: Request, template: str, status: int = 200, **values: object) -> Response:
    """A template, filled. All values are escaped."""
    return HTMLResponse(_TEMPLATES.get_template(template).render(values), status)


async def crawl_list(request: Request) -> Response:
    """The list of all data dirs."""
    return render(request, "crawls.html", views=await crawls_of(request).views())


async def login_page(request: Request) -> Response:
    return render(request, "login.html", wrong="wrong" in request.query_params)


ROUTES = [
    Route("/health", answers.health),
    Route("/status.json", answers.status),
    Route("/metrics", metrics.metrics),
    Route("/events", answers.events),
    Route("/login", login_page),
    Route("/login", answers.login, methods=["POST"]),
    Route("/", crawl_list),
    Mount("/static", StaticFiles(directory=_FOLDER / "static")),
]
CONTROL_ROUTES = [Route("/commands/{name}", control.command, methods=["POST"])]
"""With `--control` alone."""


def create_app(crawls: Crawls, access: Access) -> Starlette:
    """The application for these data dirs."""
    app = Starlette(
        routes=[*ROUTES, *(CONTROL_ROUTES if crawls.control else [])],
        middleware=[Middleware(Gate, access=access, note=crawls.note)],
        exception_handlers={HTTPException: _refused, CrawlError: _failed, Exception: _fault},
    )
    app.state.crawls, app.state.access = crawls, access
    return app


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = refuse(error.status_code, error.detail)
    answer.headers.update(error.headers or {})
    return answer


async def _failed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, CrawlError)
    return refuse(400 if isinstance(error, UsageError) else 503, error.message, error.remedy)


async def _fault(_request: Request, error: Exception) -> Response:
    return refuse(500, f"a fault of the program: {type(error).__name__}", "Please report it.")
