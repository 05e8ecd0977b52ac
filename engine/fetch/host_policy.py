"""Resolves the rules of a host from the defs and settings."""

from engine.fetch.robots import product_token
from engine.model.definition import Definitions, HostRule
from engine.settings import Settings
from engine.store.tables.hosts import HostPolicy
from engine.urls import FILE_HOST_KEY

_NO_RULE = HostRule(name="")


def host_rule_for(definitions: Definitions, host_key: str) -> HostRule:
    """The rule for a host (`name:port`), or an empty one."""
    name, _, port = host_key.rpartition(":")
    return definitions.host_rule(name, int(port)) or _NO_RULE


def resolve_host_policy(definitions: Definitions, settings: Settings, host_key: str) -> HostPolicy:
    """The limits of a host: from its rule, else from the settings."""
    rule = host_rule_for(definitions, host_key)
    is_site = host_key != FILE_HOST_KEY
    return HostPolicy(
        delay=0.0 if not is_site else settings.delay if rule.delay is None else rule.delay,
        concurrency=settings.host_concurrency if rule.concurrency is None else rule.concurrency,
        robots=is_site and (settings.robots if rule.robots is None else rule.robots),
        agent=product_token(settings.user_agent),
        throttle=is_site and (rule.throttle or settings.throttle) == "auto",
    )
