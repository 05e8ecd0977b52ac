"""The optional libraries, each brought by an extra of the package."""

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Literal

from crawl_engine.errors import UsageError

Extra = Literal[
    "browser",
    "duckdb",
    "markdown",
    "notify",
    "objectstore",
    "parquet",
    "pdf",
    "postgresql",
    "serve",
    "sign",
    "warc",
    "xlsx",
]

_LIBRARIES: Mapping[Extra, str] = MappingProxyType(
    {
        "browser": "playwright",
        "duckdb": "duckdb",
        "markdown": "html_to_markdown",
        "notify": "apprise",
        "objectstore": "obstore",
        "parquet": "pyarrow",
        "pdf": "pypdfium2",
        "postgresql": "psycopg",
        "serve": "prometheus_client",
        "sign": "http_sf",
        "warc": "warcio",
        "xlsx": "xlsxwriter",
    }
)
"""By extra the module that its library gives."""


def find_extra(name: str) -> Extra | None:
    """The extra of that name, such as that of an output type; None: no further library is needed."""
    return next((extra for extra in _LIBRARIES if extra == name), None)


def require_extra_of(type_: str, user: str) -> None:
    """As `require_extra`, for an output type."""
    if (extra := find_extra(type_)) is not None:
        require_extra(extra, user)


def has_extra(extra: Extra) -> bool:
    """Whether the library is installed; it is not imported."""
    return find_spec(_LIBRARIES[extra]) is not None


def install_hint(extra: Extra) -> str:
    """The command that installs an extra."""
    return f"pip install 'crawl-console[{extra}]'"


def require_extra(extra: Extra, user: str) -> None:
    """Raise UsageError if the library is missing. `user`: what needs it, such as `the output type parquet`."""
    if not has_extra(extra):
        raise UsageError(f"{user} needs {_LIBRARIES[extra]}", f"Install it: {install_hint(extra)}")
