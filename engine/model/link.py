"""The links of a dataDef: which ones to follow, what each sends, and what it carries to the linked page."""

from typing import Literal

from msgspec import Struct

from engine.model.stored_form import NO_POSITION, Later, SourcePosition

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class RequestTemplate(Struct, frozen=True, kw_only=True):
    """A request whose texts hold `%{…}` variables, filled with values of a page."""

    url: str | None = None
    """None: that of the element, or of the page."""
    method: Method | None = None
    """None: that of the form; else GET, or POST with a body."""
    form: tuple[tuple[str, ...], ...] = ()
    """Pairs of name and value; a name may occur several times."""
    has_form: bool = False
    json: str | None = None
    """JSON text; variables are inside its strings."""

    @property
    def has_body(self) -> bool:
        """Whether it has fields or JSON to send."""
        return self.has_form or self.json is not None


class Link(Struct, frozen=True, kw_only=True):
    """Which links of a page to follow, and into which group they lead."""

    selector: str
    attribute: str = "href"
    group: str | None = None
    """None: the page's own group."""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    same_host: bool = True
    max_depth: int | None = None
    priority: int | None = None
    """None: the priority of the target group."""
    in_block: Later[bool] = False
    """Whether the selector searches the block of each record, not the page."""
    carry: Later[tuple[str, ...]] = ()
    """Fields whose values go to the linked page."""
    request: Later[RequestTemplate | None] = None
    """None: a GET of the URL of the element."""
    place: SourcePosition = NO_POSITION

    @property
    def reads_records(self) -> bool:
        """Whether it needs the records of the page: their blocks or their values."""
        return self.in_block or bool(self.carry) or self.request is not None


class NextPage(Struct, frozen=True, kw_only=True):
    """How a page leads to the one after it, in the same group."""

    request: RequestTemplate
    variables: tuple[tuple[str, ...], ...]
    """Pairs of the name of a variable and the selector of its value."""
    until_empty: bool = False
    """Whether a page without a record or a followed link is the last."""
    place: SourcePosition = NO_POSITION
