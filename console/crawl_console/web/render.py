"""Fills templates: every value is cleaned of control characters, and escaped."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from crawl_console.format import format_time
from crawl_console.sanitize import clean
from crawl_console.web.root_path import prefix_addresses, root_path_of

FOLDER = Path(__file__).parent


def _finalize(value: Any) -> Any:
    """A text from outside without control characters and changes of direction; markup of our own as it is."""
    return clean(value) if type(value) is str else value


_TEMPLATES = Environment(
    loader=FileSystemLoader(FOLDER / "templates"), autoescape=select_autoescape(default=True), auto_reload=False,
    trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=_finalize,
)  # fmt: skip


def render(request: Request, template: str, status: int = 200, **values: object) -> Response:
    """A template, filled."""
    control = request.app.state.crawls.control
    text = _TEMPLATES.get_template(template).render(control=control, time_of=format_time, **values)
    return HTMLResponse(prefix_addresses(text, root_path_of(request.scope)), status)
