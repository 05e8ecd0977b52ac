"""Decides where a redirect may lead: its own host, hosts that the defs name, or any public host."""

from engine import urls
from engine.errors import one_line
from engine.http.address_guard import guarded_category, literal_address
from engine.http.errors import AddressRefused
from engine.model.job import LeasedJob
from engine.node.requests.named_hosts import NamedHosts


class RedirectRule:
    """One for each node."""

    def __init__(self, named_hosts: NamedHosts) -> None:
        self._named_hosts = named_hosts

    def refusal(self, job: LeasedJob, from_url: str, target: str) -> str | None:
        """Why a redirect from one normalized URL to another is not followed; None: it is.

        A name that resolves to a guarded address is refused later, when it is connected.
        """
        if urls.origin(from_url) == urls.origin(target):
            return None
        return self.guard_refusal(job, target) or self._leaving_refusal(job, from_url, target)

    def guard_refusal(self, job: LeasedJob, target: str) -> str | None:
        """Why the address guard refuses a target that spells an address; None: it does not."""
        address = literal_address(urls.host_of(target))
        category = None if address is None else guarded_category(address)
        host_key = urls.host_key(target)
        if address is None or category is None or self._named_hosts.is_exempt(host_key, job.defs_version):
            return None
        host, _, port = host_key.rpartition(":")
        return AddressRefused(host, int(port), address, category).reason

    def _leaving_refusal(self, job: LeasedJob, from_url: str, target: str) -> str | None:
        stays = urls.host_without_www(target) in (urls.host_without_www(from_url), urls.host_without_www(job.url))
        if stays or job.may_leave_host or self._named_hosts.may_be_target(target, job):
            return None
        host = urls.host_of(target)
        return one_line(
            f"redirect leaves {urls.host_of(from_url)} for {host}; "
            f'to follow it: hosts: {{"{host}": {{}}}}, or sameHost: false at the link'
        )
