"""The keys of a host that say how its requests travel: `auth`, `proxy`, `tls`."""

import re
from typing import Annotated

from engine import urls
from engine.defs.scalars import HeaderValue, Term, Text, has_control_characters, optional, url_problem, validated_by
from engine.model import variables
from engine.model.host import AuthKind

_ONE_VARIABLE = re.compile(r"%\{(?:env|file)\.[^{}]*\}")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_one_variable(text: str) -> bool:
    """Whether the text is a single variable with a secret."""
    return _ONE_VARIABLE.fullmatch(text.strip()) is not None


def _pair_problem(text: str) -> str | None:
    if ":" in text or is_one_variable(text):
        return None
    return "must be `user:password`; write for example `user:%{env.PASSWORD}`"


def _digest_problem(text: str) -> str | None:
    user = text.partition(":")[0]
    return "the user may hold neither a quote nor a backslash" if re.search(r'["\\]', user) else None


def proxy_problem(url: str) -> str | None:
    """Why a URL is none of a proxy; None if it is. Quotes no credentials."""
    if has_control_characters(url):
        return "contains a line break or control character"
    scheme = _SCHEME.match(url)
    if scheme is None:
        return "has no scheme; write `http://HOST:PORT`"
    if scheme[1].lower().startswith("socks"):
        return "SOCKS proxies are not supported; use an HTTP proxy, `http://HOST:PORT` or `https://HOST:PORT`"
    if scheme[1].lower() not in ("http", "https"):
        return f"'{scheme[1]}:' proxies are not supported; use `http://HOST:PORT` or `https://HOST:PORT`"
    normalized = urls.normalize(url)
    if normalized is None or url_problem(url) is not None:
        return "is not the URL of a proxy; write `http://HOST:PORT`"
    if "?" in normalized or normalized.partition("://")[2].partition("/")[2]:
        return "the URL of a proxy has no path and no query; write `http://HOST:PORT`"
    return None


def _written_proxy_problem(text: str) -> str | None:
    return None if text.startswith(variables.SECRET_STARTS) else proxy_problem(variables.render(text, lambda _: "1"))


NonBlankSecret = Annotated[HeaderValue, validated_by("empty-text", lambda text: None if text.strip() else "is empty")]
UserAndPassword = Annotated[NonBlankSecret, validated_by("bad-auth", _pair_problem)]
DigestUser = Annotated[UserAndPassword, validated_by("bad-auth", _digest_problem)]
ProxyUrl = Annotated[HeaderValue, validated_by("bad-proxy", _written_proxy_problem)]


class AuthTerm(Term):
    """The authentication for the pages of a host: one of these keys."""

    basic: UserAndPassword = optional("A `user:password`, sent with every request for a page.")
    bearer: NonBlankSecret = optional("A token, sent with every request for a page.")
    digest: DigestUser = optional("A `user:password`, with which the challenges of the host are answered.")


class TlsTerm(Term):
    """Which certificates are accepted from the host, and which one is shown to it."""

    verify: bool = optional("Whether the certificate of the host is checked; default true.")
    ca: Text = optional("A PEM file with the authorities to trust in place of the system's, relative to this file.")
    client: Text = optional("A PEM file with a client certificate and its private key, relative to this file.")


AUTH_KINDS = tuple(AuthTerm.model_fields)


def written_auth(term: AuthTerm) -> tuple[AuthKind, str] | None:
    """The kind and the credential of a valid term."""
    written: dict[AuthKind, str | None] = {"basic": term.basic, "bearer": term.bearer, "digest": term.digest}
    return next(((kind, text) for kind, text in written.items() if text is not None), None)
