"""Tells what the defs say about the login of a job's host, and whether a redirect leads to its login page."""

from engine import urls
from engine.model.host import LoginRule
from engine.model.job import JobKind, LeasedJob
from engine.node.def_cache import DefCache
from engine.store.transactions.logins import login_page_url

_BEHIND_LOGIN = (JobKind.PAGE, JobKind.FILE)


class LoginGuard:
    """One for each node. A page that was not sent with a login costs an attribute."""

    def __init__(self, def_cache: DefCache) -> None:
        self._def_cache = def_cache

    def rule(self, job: LeasedJob, url: str) -> LoginRule | None:
        """How to log in to the host of a URL, if the job waits for its login."""
        if not job.login_number or job.kind not in _BEHIND_LOGIN:
            return None
        return self._def_cache.host_rule(job.defs_version, urls.host_key(url)).login

    def is_lost(self, job: LeasedJob, from_url: str, target: str) -> LoginRule | None:
        """The rule, where a redirect leads to the login page; None: it does not. Compared without queries."""
        rule = self.rule(job, from_url)
        if rule is None:
            return None
        page = _bare(login_page_url(urls.origin(from_url), rule))
        return rule if _bare(target) == page != _bare(job.url) else None


def _bare(url: str) -> tuple[str, str]:
    """The host, without `www.`, and the path."""
    path = url.partition("#")[0].partition("?")[0].partition("://")[2].partition("/")[2]
    return urls.host_without_www(url), path.rstrip("/")
