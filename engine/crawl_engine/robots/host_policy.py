"""Resolves the rules of a host from the defs and settings."""

import os
from collections.abc import Iterator

from crawl_engine import urls
from crawl_engine.host_rules import is_pattern
from crawl_engine.model.definition import Definitions
from crawl_engine.model.host import DelayRange, HostPolicy, HostRule, product_token
from crawl_engine.model.variables import UnusableVariable, render_authority
from crawl_engine.settings import Settings

_SHORTEST_DRAWN = 0.001
"""Seconds: 0 would be a host without delay."""
_NO_RULE = HostRule(name="")


def host_rule_for(definitions: Definitions, host_key: str) -> HostRule:
    """The rule for a host (`name:port`), or an empty one."""
    return definitions.host_rule(host_key) or _NO_RULE


def resolve_host_policy(definitions: Definitions, settings: Settings, host_key: str) -> HostPolicy:
    """The limits of a host: from its rule, else from the settings."""
    rule = host_rule_for(definitions, host_key)
    is_site = host_key != urls.FILE_HOST_KEY
    delay = DelayRange(min=settings.delay) if rule.delay is None else rule.delay
    return HostPolicy(
        delay=max(delay.min, _SHORTEST_DRAWN if delay.max else 0.0) if is_site else 0.0,
        delay_max=(delay.max or 0.0) if is_site else 0.0,
        concurrency=settings.host_concurrency if rule.concurrency is None else rule.concurrency,
        robots=is_site and (settings.robots if rule.robots is None else rule.robots),
        agent=product_token(settings.user_agent),
        login=rule.login if rule.login is not None and _may_log_in(definitions, settings, host_key, rule) else None,
        pool=rule.name if rule.shared and is_site else None,
        throttle=is_site and (rule.throttle or settings.throttle) == "auto",
    )


def find_plain_hosts(definitions: Definitions) -> frozenset[str]:
    """The hosts that locators or `baseUrl` name with `http:`; those in lists of URLs are not known here."""
    written = [definitions.base_url]
    for group in definitions.locator_groups:
        for locator in group.locators:
            written += [*locator.urls, locator.sitemap]
    normalized = [resolve_written(url) for url in written if url is not None and _is_plain_url(url)]
    return frozenset(urls.host_of(url) for url in normalized if url is not None)


def find_mistyped_hosts(definitions: Definitions, base: str | None) -> Iterator[tuple[str, str]]:
    """The names of host rules that no locator has, and that are like one that a locator has; each with that.

    None where locators do not tell all their hosts. `base`: the URL of relative locators.
    """
    written = [base, *(rule.login.url for rule in definitions.hosts if rule.login is not None)]
    for group in definitions.locator_groups:
        for locator in group.locators:
            if locator.from_file is not None:
                return
            written += [*locator.urls, locator.sitemap]
    keys: set[str] = set()
    for url in written:
        if url is not None and urls.is_http_url(url):
            normalized = resolve_written(url)
            if normalized is None:
                return
            keys.add(urls.host_key(normalized))
    used = keys | {key.rpartition(":")[0] for key in keys}
    unused = [rule.name for rule in definitions.hosts if not is_pattern(rule.name) and rule.name not in used]
    for name in unused:
        if (similar := urls.similar_host(name, keys)) is not None:
            yield name, similar


def resolve_written(url: str) -> str | None:
    """The normalized form of an absolute URL of the defs, without credentials, its host resolved; None for others."""
    try:
        return urls.normalize(render_authority(urls.split_userinfo(url)[0], os.environ))
    except UnusableVariable:
        return None


def _may_log_in(definitions: Definitions, settings: Settings, host_key: str, rule: HostRule) -> bool:
    """Whether to log in to the host: on port 80, where nothing is encrypted, only if the defs name it with http.

    A link from an https page cannot ask for it; its page is asked for without a login.
    """
    name, _, port = host_key.rpartition(":")
    if port != "80" or rule.name.endswith(":80") or (rule.login is not None and _is_plain_url(rule.login.url)):
        return True
    base = urls.normalize(settings.base_url) if settings.base_url else None
    return name in find_plain_hosts(definitions) or (
        base is not None and _is_plain_url(base) and urls.host_of(base) == name
    )


def _is_plain_url(url: str) -> bool:
    """Whether a URL as written has the scheme http."""
    return url.lstrip()[:5].lower() == "http:"
