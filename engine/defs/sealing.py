"""Seals the secret literals of defs: header and cookie values, fields of logins, and the credentials in URLs."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from engine.defs import url_patterns
from engine.model.definition import AppenderDef, Definitions, HostRule, Locator, LocatorGroup
from engine.model.host import SAFE_HEADERS
from engine.model.secret import SecretVault

MAX_CREDENTIALS = 1000
"""For each URL pattern: sealing one takes 10 ms."""
_STRIPPED = re.compile(r"^[\x00-\x20]+|[\t\n\r]")
"""Characters that have no meaning in a URL."""
_USERINFO = re.compile(r"(https?:[/\\]*|[/\\]{2,})((?:\\[{},]|[^/\\?#])*)@", re.IGNORECASE)
"""The start of a URL up to the last `@` of its authority, as WHATWG parsers find it."""


def seal_definitions(definitions: Definitions, vault: SecretVault) -> Definitions:
    """The defs to store: each secret literal replaced by its placeholder. `%{env.NAME}` stays as written."""
    return replace(
        definitions,
        locator_groups=tuple(_seal_group(group, vault) for group in definitions.locator_groups),
        hosts=tuple(_seal_host(host, vault) for host in definitions.hosts),
        appenders=tuple(_seal_appender(appender, vault) for appender in definitions.appenders),
        base_url=None if definitions.base_url is None else seal_url(definitions.base_url, vault),
    )


def count_credentials(pattern: str) -> int:
    """The number of different credentials that a URL pattern expands to. Raises UsageError for an invalid brace."""
    match = _match_userinfo(pattern)
    return 0 if match is None else url_patterns.count(match.group(2))


def has_credentials(url: str) -> bool:
    """Whether a URL, or the template of one, has `user:password@`."""
    return _match_userinfo(url) is not None


def seal_url(url: str, vault: SecretVault) -> str:
    """The URL, as written, with its `user:password` sealed."""
    match = _match_userinfo(url)
    if match is None:
        return url
    return f"{match.group(1)}{vault.seal_userinfo(match.group(2))}@{match.string[match.end() :]}"


def _match_userinfo(url: str) -> re.Match[str] | None:
    return _USERINFO.match(_STRIPPED.sub("", url)) if "@" in url else None


def _seal_group(group: LocatorGroup, vault: SecretVault) -> LocatorGroup:
    return replace(group, locators=tuple(_seal_locator(locator, vault) for locator in group.locators))


def _seal_locator(locator: Locator, vault: SecretVault) -> Locator:
    return replace(
        locator,
        urls=tuple(sealed for url in locator.urls for sealed in _seal_pattern(url, vault)),
        sitemap=None if locator.sitemap is None else seal_url(locator.sitemap, vault),
        headers=_seal_headers(locator.headers, vault),
        cookies=_seal_values(locator.cookies, vault),
    )


def _seal_host(host: HostRule, vault: SecretVault) -> HostRule:
    auth, route, login = host.auth, host.route, host.login
    return replace(
        host,
        headers=_seal_headers(host.headers, vault),
        cookies=_seal_values(host.cookies, vault),
        auth=None if auth is None else replace(auth, credential=vault.seal(auth.credential)),
        route=None if route is None else replace(route, proxies=tuple(seal_url(url, vault) for url in route.proxies)),
        login=None if login is None else replace(login, form=_seal_values(login.form, vault)),
    )


def _seal_appender(appender: AppenderDef, vault: SecretVault) -> AppenderDef:
    if not appender.url:
        return appender
    return replace(appender, url=seal_url(appender.url, vault), headers=_seal_headers(appender.headers, vault))


def _seal_pattern(pattern: str, vault: SecretVault) -> Iterator[str]:
    """The pattern sealed; one for each alternative if there are braces in its `user:password`."""
    stripped = _STRIPPED.sub("", pattern) if "@" in pattern else pattern
    match = _USERINFO.match(stripped)
    if match is None:
        yield pattern
        return
    for userinfo in url_patterns.expand(match.group(2)):
        yield f"{match.group(1)}{vault.seal_userinfo(userinfo)}@{stripped[match.end() :]}"


def _seal_headers(headers: Mapping[str, str], vault: SecretVault) -> Mapping[str, str]:
    return MappingProxyType(
        {name: value if name.lower() in SAFE_HEADERS else vault.seal(value) for name, value in headers.items()}
    )


def _seal_values(values: Mapping[str, str], vault: SecretVault) -> Mapping[str, str]:
    return MappingProxyType({name: vault.seal(value) for name, value in values.items()})
