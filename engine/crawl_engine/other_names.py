"""What other crawlers call a key, a setting, a command or an option, and what it is called here.

A value is a name of ours, or a sentence that begins with `write` or `use`.
"""

from collections.abc import Mapping
from types import MappingProxyType

KEYS: Mapping[str, str] = MappingProxyType({
    "css": "selector", "xpath": "write `selector: 'xpath: …'`", "path": "selector", "attr": "attribute",
    "regex": "match", "re": "match", "pattern": "match", "group": "linkGroup", "follow": "linkGroup",
    "user_agent": "write `headers: {User-Agent: …}`", "userAgent": "write `headers: {User-Agent: …}`",
    "rate_limit": "delay", "download_delay": "delay", "proxies": "proxy", "query": "block", "columns": "fields",
    "start_urls": "urls", "include": "allow", "exclude": "deny", "pagination": "next", "output": "path",
})  # fmt: skip
"""Counts where the key of ours may stand; a sentence counts where the key that it begins with may."""
KEYS_ELSEWHERE: Mapping[str, str] = MappingProxyType({
    "start_urls": "write start URLs as `locatorGroups: {NAME: {locators: [{urls: […]}]}}`",
    "startUrls": "write start URLs as `locatorGroups: {NAME: {locators: [{urls: […]}]}}`",
    "urls": "write start URLs as `locatorGroups: {NAME: {locators: [{urls: […]}]}}`",
    "follow": "write the links to follow as `links: [{selector: …, linkGroup: …}]` of a dataDef",
    "rules": "write the links to follow as `links: [{selector: …, linkGroup: …}]` of a dataDef",
    "allowed_domains": "use `sameHost` of a link: links stay on their host",
    "items": "write what to extract as `dataDefs: {NAME: {fields: …}}`",
    "item": "write what to extract as `dataDefs: {NAME: {fields: …}}`",
    "settings": "write settings in crawl.toml",
    "custom_settings": "write settings in crawl.toml",
    "proxy": "write `hosts: {HOST: {proxy: …}}`",
    "cookies": "write `cookies` in a locator or in `hosts: {HOST: {cookies: …}}`",
    "headers": "write `headers` in a locator or in `hosts: {HOST: {headers: …}}`",
})  # fmt: skip
"""Counts where no key of `KEYS` does."""
SETTINGS: Mapping[str, str] = MappingProxyType({
    "autothrottle_enabled": "throttle", "closespider_itemcount": "use `maxPages` of a task group, or `max_pages`",
    "closespider_pagecount": "max_pages", "closespider_timeout": "max_time", "concurrent_requests": "concurrency",
    "concurrent_requests_per_domain": "host_concurrency", "concurrent_requests_per_ip": "host_concurrency",
    "cookies_enabled": "write `hosts: {HOST: {cookieJar: off}}` in the defs",
    "default_request_headers": "write `hosts: {HOST: {headers: …}}` in the defs",
    "depth_limit": "write `maxDepth` of a task group in the defs", "download_delay": "delay",
    "download_maxsize": "max_body", "download_timeout": "deadline",
    "feeds": "use `-o FILE`, or `appenders` of the defs", "feed_uri": "use `-o FILE`, or `appenders` of the defs",
    "http_proxy": "write `hosts: {HOST: {proxy: …}}` in the defs",
    "httpcache_enabled": "write `live` of a task group in the defs", "jobdir": "use `--data DIR`",
    "log_level": "use `--progress`", "proxy": "write `hosts: {HOST: {proxy: …}}` in the defs",
    "proxies": "write `hosts: {HOST: {proxy: …}}` in the defs", "redirect_max_times": "max_redirects",
    "retry_times": "max_attempts", "robotstxt_obey": "robots", "timeout": "deadline", "workers": "nodes",
    "download_slots": "write `hosts: {HOST: {delay: …, concurrency: …}}` in the defs",
    "randomize_download_delay": "write `hosts: {HOST: {delay: {min: …, max: …}}}` in the defs",
})  # fmt: skip
"""By the name in lower case."""
COMMANDS: Mapping[str, str] = MappingProxyType({
    "convert": "Scoopi's definitions run unmodified", "crawl": "run", "fetch": "try", "genspider": "init",
    "install": "use `pip install 'crawl-console[EXTRA]'` for the extras", "lint": "check",
    "list": "use `plan` for what the defs crawl, `runs` for the runs, `jobs` for the URLs", "new": "init",
    "parse": "try", "runspider": "run", "scrape": "run", "start": "run", "startproject": "init", "validate": "check",
    "view": "use `pages show`, or `try`", "settings": "config",
})  # fmt: skip
OPTIONS: Mapping[str, str] = MappingProxyType({
    "--batch": "--no-ui", "--config": "--defs", "--headless": "--no-ui", "--limit": "--max-pages",
    "--no-tui": "--no-ui", "--non-interactive": "--no-ui", "--quiet": "--progress", "--setting": "--set",
    "--timeout": "--max-time", "--workers": "--nodes", "-O": "-o", "-f": "--format", "-s": "--set", "-t": "--format",
    "--output": "-o", "--loglevel": "--progress",
})  # fmt: skip

URL_REMEDY = "write its URL into `locators` of the defs; `try DATADEF URL` shows what one page gives"


def as_sentence(name: str) -> str:
    """What to write: a sentence as it is, a name as `write …`."""
    return name if " " in name else f"write `{name}`"
