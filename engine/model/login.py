"""A host's login, as the defs describe it, and what becomes of the cookies that a site sets."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

CookieJarMode = Literal["shared", "perNode", "off"]
"""Whose are the cookies that a site sets: of all nodes, of the node that got them, of nobody."""


class LoginRule(Struct, frozen=True, kw_only=True):
    """How to log in to a host."""

    url: str
    """Absolute, or relative to the host."""
    form: Mapping[str, str]
    """The fields to fill in; values may hold `%{env.NAME}` and placeholders of secrets."""
    selector: str | None = None
    """Selects the form; None: the one that has the fields."""
    check: str | None = None
    """What a page has while the login lasts; None: nothing tells."""
    on_lost: Literal["relogin", "pause"] = "relogin"
    """What follows when it no longer lasts."""
