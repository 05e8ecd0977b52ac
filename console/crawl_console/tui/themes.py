"""Themes: colours by meaning, for Textual's widgets and our own lines; and plain ASCII."""

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

from crawl_console.terminal import to_ascii

DEFAULT_THEME = "night"


class Colours(Struct, frozen=True, kw_only=True):
    """A theme's colours by meaning. No meaning is shown by colour alone: every state has a glyph and a word."""

    background: str
    panel: str
    text: str
    dim: str
    good: str
    warn: str
    bad: str
    accent: str
    cursor: str
    dark: bool = True


THEMES: dict[str, Colours] = {
    "night": Colours(
        background="#101418", panel="#1b2229", text="#d5dbe1", dim="#7f8b97", good="#6fc276", warn="#e5b454",
        bad="#f07070", accent="#6cb4ee", cursor="#26435c",
    ),
    "day": Colours(
        background="#fbfbf8", panel="#e9ebe6", text="#20262c", dim="#66707a", good="#17703a", warn="#8a5a00",
        bad="#b3261e", accent="#0b5ea8", cursor="#cfe2f5", dark=False,
    ),
    # blue, yellow and orange of Okabe and Ito: distinct with the common kinds of colour blindness
    "clear": Colours(
        background="#000000", panel="#1a1a1a", text="#f2f2f2", dim="#9a9a9a", good="#56b4e9", warn="#f0e442",
        bad="#e69f00", accent="#cc79a7", cursor="#003f63",
    ),
    "plain": Colours(
        background="#000000", panel="#303030", text="#ffffff", dim="#b0b0b0", good="#ffffff", warn="#ffffff",
        bad="#ffffff", accent="#ffffff", cursor="#505050",
    ),
}  # fmt: skip
"""`clear` is for colour blindness, `plain` has no colours."""


def textual_theme(name: str) -> Theme:
    c = THEMES[name]
    return Theme(
        name=name, primary=c.accent, secondary=c.cursor, warning=c.warn, error=c.bad, success=c.good, accent=c.accent,
        foreground=c.text, background=c.background, surface=c.background, panel=c.panel, dark=c.dark,
    )  # fmt: skip


class ThemeStyles:
    """Styles by role: `text dim good warn bad accent title strong`; a line's base may be `cursor`, `bar` or `` ``."""

    def __init__(self, name: str) -> None:
        c = THEMES[name]
        self._role_styles = {
            "": Style.null(),
            "text": Style(color=c.text),
            "dim": Style(color=c.dim),
            "good": Style(color=c.good),
            "warn": Style(color=c.warn, bold=name == "plain"),
            "bad": Style(color=c.bad, bold=True, reverse=name == "plain"),
            "accent": Style(color=c.accent),
            "grid": Style(color=c.panel),
            "strong": Style(color=c.text, bold=True),
            "title": Style(color=c.accent, bold=True),
            "match": Style(color=c.background, bgcolor=c.warn, underline=name == "plain"),
            "tab": Style(color=c.background, bgcolor=c.accent, bold=True),
            "cursor": Style(bgcolor=c.cursor, bold=True),
            "bar": Style(bgcolor=c.panel),
            "alarm": Style(color=c.background, bgcolor=c.bad, bold=True),
        }
        self._base_style = Style(color=c.text, bgcolor=c.background)
        self._style_cache: dict[tuple[str, str], Style] = {}

    def style(self, base: str, role: str) -> Style:
        key = (base, role)
        cached = self._style_cache.get(key)
        if cached is None:
            cached = self._style_cache[key] = self._base_style + self._role_styles[base] + self._role_styles[role]
        return cached


class AsciiFilter(LineFilter):
    """The last filter before the terminal."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        return [
            s if s.control or s.text.isascii() else Segment(to_ascii(s.text), s.style)
            for s in segments
        ]  # fmt: skip
