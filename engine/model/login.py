"""A host's login, as the defs describe it, and what becomes of the cookies that a site sets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

CookieJarMode = Literal["shared", "perNode", "off"]
"""Whose are the cookies that a site sets: of all nodes, of the node that got them, of nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRule:
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
