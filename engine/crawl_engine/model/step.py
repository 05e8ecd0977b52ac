"""The steps of a task's chain, and the plugin files that they may need."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, field

from crawl_engine.model.declaration import ClickTarget, DefKey, LocaleName, SelectorText, Shape, Text
from crawl_engine.model.stored_form import NO_POSITION, OMIT_DEFAULT, SourcePosition

Outcome = Literal["ok", "warning", "error", "not_applicable"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "warning", "error", "not_applicable")
StepKind = Literal["built-in", "loader", "parser", "step", "command"]
REQUIRED_FIELDS = "required"
"""In place of a selector: the required fields of the rows."""
BAD_ANSWER = "bad-answer"
"""The code of an answer that does not fit the line sent to a command: its next lines may belong to any page."""


class ChainStep(Struct, frozen=True, kw_only=True):
    name: str
    class_name: str
    """A built-in class, `NAME.Class` of the project's plugins, or the name of an installed one."""
    kind: StepKind = "built-in"
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Keyword arguments of the class; JSON values."""
    run: tuple[str, ...] = ()
    """Of a command: the program and its arguments."""
    limit: float | None = None
    """Seconds for one page; None: the setting `parse_limit`, or for a loader `deadline`."""
    workers: int = 1
    """Pages of a node that it works on at once."""
    previous: str = ""
    """For a side branch: the step whose rows it gets. Empty in the main line."""
    place: SourcePosition = NO_POSITION

    @property
    def is_plugin(self) -> bool:
        """Whether it runs plugin code."""
        return self.kind != "built-in"


BLOCKED_WORDS: Mapping[str, str] = MappingProxyType(
    {"images": "Image", "fonts": "Font", "media": "Media", "styles": "Stylesheet"}
)
"""What DevTools call the words of `block`."""


RENDERED_FILES: Mapping[str, str] = MappingProxyType({"screenshot": "image/png", "pdf": "application/pdf"})
"""What a browser makes a file of, by the name of its key and of its column, with the content type."""


class Viewport(Struct, frozen=True, kw_only=True):
    """The window of a browser, in CSS pixels."""

    width: Annotated[int, Meta(ge=100, le=10_000), DefKey("Pixels.", examples=(1280,))]
    height: Annotated[int, Meta(ge=100, le=10_000), DefKey("Pixels.", examples=(800,))]


class Scroll(Struct, frozen=True, kw_only=True):
    """How far a page is scrolled."""

    until: Annotated[
        Text,
        DefKey(
            "How far: end, until nothing more comes; a number of screens; a selector, until it matches.",
            examples=("end", 5, ".footer"),
        ),
    ]


TEXT_PREFIX = "text:"
"""Begins the text of an element to click."""


class BrowserAction(Struct, frozen=True, kw_only=True):
    """One thing that is done on a page, by its only key besides `optional`, `frame` and `until`."""

    click: Annotated[
        ClickTarget | None,
        DefKey("The element to click: a selector, or `text: …`, what it shows.", examples=("#accept", "text: Accept")),
    ] = None
    fill: Annotated[
        Mapping[str, Text], DefKey("By selector, the text to put into a field.", examples=({"#q": "shoes"},))
    ] = field(default_factory=lambda: MappingProxyType({}))
    select: Annotated[Mapping[str, Text], DefKey("By selector, the option to choose.", examples=({"#size": "XL"},))] = (
        field(default_factory=lambda: MappingProxyType({}))
    )
    press: Annotated[Text | None, DefKey("The key to press.", examples=("Enter",))] = None
    scroll: Annotated[Scroll | None, DefKey("Scroll down.", examples=({"until": "end"},))] = None
    wait: Annotated[
        Text | None, DefKey("A selector that must match, idle, or seconds.", examples=(".row", "idle", 2))
    ] = None
    optional: Annotated[bool, DefKey("Whether the page goes on where this cannot be done; default false.")] = False
    frame: Annotated[
        tuple[SelectorText, ...],
        OMIT_DEFAULT,
        Shape.ITEM_OR_LIST,
        DefKey(
            "The frame in which it is done; of a list each inside the one before.",
            examples=("#consent", ["#outer", "iframe"]),
        ),
    ] = ()
    until: Annotated[
        Text | None,
        OMIT_DEFAULT,
        DefKey(
            "Of `click`, again and again: gone, until the element is; a number: at most so often; a selector.",
            examples=("gone", 5, ".last"),
        ),
    ] = None


class Capture(Struct, frozen=True, kw_only=True):
    """Answers that a page asks for, which its document keeps."""

    url: Annotated[Text, DefKey("Their URLs, with `*` for any characters.", examples=("*/api/items*",))]


class RenderWhen(Struct, frozen=True, kw_only=True):
    """Which pages need the browser, after a plain request."""

    missing: Annotated[
        Text,
        DefKey(
            "Pages in which a selector matches nothing; required: pages that lack a required field.",
            examples=(".price", "required"),
        ),
    ]


class BrowserRule(Struct, frozen=True, kw_only=True):
    """How a browser loads the pages of a group."""

    when: Annotated[RenderWhen | None, DefKey("Ask for pages without the browser first; default: never.")] = None
    wait: Annotated[
        Text | None,
        DefKey(
            "What the page must reach: a selector that matches, idle, or seconds; default: its load event.",
            examples=(".price", "idle", 2),
        ),
    ] = None
    actions: Annotated[tuple[BrowserAction, ...], DefKey("What is done on the page then, in this order.")] = ()
    collect: Annotated[
        bool,
        OMIT_DEFAULT,
        DefKey("Whether records count that the page had before or between its actions, too, each once by its `key`."),
    ] = False
    block: Annotated[
        tuple[Text, ...],
        Shape.ITEM_OR_LIST,
        DefKey(
            "What is not loaded: images, fonts, media, styles, or URLs with `*` for any characters.",
            examples=(["images", "fonts", "*.ads.example/*"],),
        ),
    ] = ()
    viewport: Annotated[Viewport | None, DefKey("The size of the window; default 1280 by 720.")] = None
    locale: Annotated[LocaleName | None, DefKey("The language of the browser.", examples=("en-GB",))] = None
    timezone: Annotated[Text | None, DefKey("The time zone of the browser.", examples=("Europe/London",))] = None
    screenshot: Annotated[
        bool, DefKey("Whether rows have a picture of their whole page, in the column `screenshot`; default false.")
    ] = False
    pdf: Annotated[bool, DefKey("Whether rows have their page as PDF, in the column `pdf`; default false.")] = False
    frames: Annotated[bool, DefKey("Whether frames of the same site become parts of the page; default false.")] = False
    capture: Annotated[
        Mapping[str, Capture],
        DefKey(
            'By name, answers that dataDefs read with `from: "capture: NAME"`.',
            examples=({"items": {"url": "*/api/items*"}},),
        ),
    ] = field(default_factory=lambda: MappingProxyType({}))

    routes: Annotated[
        bool,
        OMIT_DEFAULT,
        DefKey("Whether a fragment such as `#/tea/1` or `#!tea` is part of a URL of the group; default true."),
    ] = True

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that it makes of a page."""
        return tuple([name for name in RENDERED_FILES if getattr(self, name)])


class GroupLoading(Struct, frozen=True, kw_only=True):
    """What loads the pages of a group."""

    browser: Annotated[BrowserRule, DefKey("A browser, for pages that scripts write.")]


class StepResult(NamedTuple):
    """The outcome of a step on a page."""

    task: str
    step: str
    outcome: Outcome
    code: str
    """Groups warnings or errors of one cause; may be empty."""
    milliseconds: float
    text: str


def is_plugin_path(argument: str) -> bool:
    """Whether an argument of a command names a file of the plugins."""
    return argument.startswith("plugins/") and ".." not in argument.split("/")


class PluginFile(Struct, frozen=True, kw_only=True):
    """A file below `defs/plugins`."""

    path: str
    """Relative to that folder, with `/`."""
    text: str
    is_base64: bool = False
    """Whether `text` is the base64 of bytes that are not UTF-8 text."""
