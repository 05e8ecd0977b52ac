"""Reads and writes `meta.yml`, which says how a crawl reached the saved page of a golden test."""

from collections.abc import Mapping
from typing import Annotated, Any

import yaml
from msgspec import NODEFAULT, Struct

from crawl_engine.defs.language.keys import keys_of
from crawl_engine.defs.language.reader import DefPart, Reader
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml import tree
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.extract.page.context import format_utc
from crawl_engine.model.declaration import (
    AnyText,
    DefKey,
    HttpStatus,
    Moment,
    NonNegativeInteger,
    PageAddress,
    Text,
    TypeHint,
)

_HEADING = "# The page beside this file, and how a crawl reached it. `crawl-console test` reads both.\n"


class PageMeta(Struct, frozen=True, kw_only=True):
    """All that extraction needs besides the page."""

    url: Annotated[PageAddress, DefKey("The address of the page, after redirects.")]
    data_def: Annotated[Text, DefKey("The dataDef whose rows are compared.")]
    fetched_at: Annotated[Moment, DefKey("When the page was fetched: the clock of the test.")]
    content_type: Annotated[AnyText, DefKey("The Content-Type of the answer; default: by the name of the page.")] = ""
    status: Annotated[HttpStatus, DefKey("The HTTP status.")] = 200
    group: Annotated[Text | None, DefKey("The task group whose task is run; default: none, and no steps.")] = None
    locator: Annotated[Text | None, DefKey("For `%{locator.name}`; default: the group.")] = None
    locator_url: Annotated[Text | None, DefKey("For `%{locator.url}`; default: `url`.")] = None
    depth: Annotated[NonNegativeInteger, DefKey("For `%{depth}`.")] = 0
    run: Annotated[Text, DefKey("For `%{run.id}`.")] = "test"
    run_time: Annotated[Text | None, DefKey("For `%{run.time}`; default: `fetchedAt`.")] = None
    carried: Annotated[Mapping[str, AnyText], DefKey("Values that the page before gave it, by name.")] = {}
    robots_tags: Annotated[tuple[AnyText, ...], DefKey("The values of its X-Robots-Tag headers.")] = ()
    headers: Annotated[Mapping[str, AnyText], DefKey("Its other headers, by name in lower case.")] = {}


def read_meta(text: str, shown: str, problems: Problems) -> tuple[PageMeta, YamlNode] | None:
    """The meta of a page, and its tree for the places of keys. None, with problems, if it is invalid."""
    root = tree.parse(text, shown, problems)
    if root is None:
        return None
    meta = Reader(problems, {}).read(TypeHint(PageMeta), DefPart(("meta.yml",), root, root.place))
    return (meta, root) if isinstance(meta, PageMeta) else None


def write_meta(meta: PageMeta) -> str:
    """The text of `meta.yml`, without the keys that have their default."""
    written: dict[str, Any] = {}
    for name, declared in keys_of(PageMeta).items():
        value = getattr(meta, declared.field)
        if declared.default is NODEFAULT or (value and value != declared.default):
            written[name] = list(value) if isinstance(value, tuple) else value  # YAML has no tuples
    written |= {"fetchedAt": format_utc(meta.fetched_at)}
    return _HEADING + yaml.safe_dump(written, allow_unicode=True, sort_keys=False, width=1_000)
