"""Builds the rules of hosts from validated terms."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from engine.defs.build_route import build_auth, build_route
from engine.defs.conflicts import canonical_host
from engine.defs.language import HostTerm, LoginTerm
from engine.defs.yaml_node import Entry
from engine.model.definition import BlockSign, HostRule
from engine.model.host import LoginRule


def build_host(name: str, term: HostTerm, entry: Entry, paths: Mapping[str, Path]) -> HostRule:
    """The rule of a host. `paths`: those of the files of the defs."""
    return HostRule(
        name=canonical_host(name) or name,
        delay=term.delay,
        concurrency=term.concurrency,
        headers=_freeze(term.headers),
        cookies=_freeze(term.cookies),
        robots=term.robots,
        nofollow=term.nofollow if term.nofollow is not None else True,
        private=term.private,
        throttle=term.throttle,
        blocked=tuple(BlockSign(status=sign.status, match=sign.match) for sign in term.blocked or ()),
        challenges=entry.node.text_of("blocked") != "false",
        drop=tuple(term.drop or ()),
        auth=build_auth(term.auth),
        route=build_route(term, paths[entry.place.file]),
        cookie_jar=term.cookie_jar,
        login=None if term.login is None else _login(term.login),
        place=entry.place,
    )


def _login(term: LoginTerm) -> LoginRule:
    written: Literal["relogin", "pause"] | None = term.on_lost
    return LoginRule(
        url=term.url.strip(),
        form=_freeze(term.form),
        selector=term.selector,
        check=term.check,
        on_lost=written or "relogin",
    )


def _freeze(texts: dict[str, str] | None) -> Mapping[str, str]:
    return MappingProxyType(dict(texts or {}))
