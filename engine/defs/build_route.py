"""Builds how the requests for a host travel from its terms."""

from pathlib import Path
from typing import Any

from engine.defs.sources import resolve_beside
from engine.defs.transport_terms import AuthTerm, written_auth
from engine.model.host import HostAuth, HostRoute, TlsRule


def build_auth(term: AuthTerm | None) -> HostAuth | None:
    """The authentication of a host; None: there is none."""
    written = None if term is None else written_auth(term)
    return None if written is None else HostAuth(*written)


def build_route(term: Any, file: Path) -> HostRoute | None:
    """The route of a `HostTerm` that is written in `file`; None: a plain connection will do."""
    tls = None
    if term.tls is not None:
        tls = TlsRule(
            verify=term.tls.verify is not False,
            ca=term.tls.ca and resolve_beside(file, term.tls.ca),
            client=term.tls.client and resolve_beside(file, term.tls.client),
        )
    route = HostRoute(proxies=tuple(term.proxy or ()), tls=None if tls == TlsRule() else tls, http2=term.http2 is True)
    return None if route == HostRoute() else route
