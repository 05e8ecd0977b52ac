"""Notes at which address each host is, once: many names of one server have limits each."""

from crawl_engine import urls
from crawl_engine.http.address_guard import literal_address
from crawl_engine.http.transports.guard import Resolvers
from crawl_engine.model.job import LeasedJob
from crawl_engine.store.tables.host.hosts import HostAddress

_MAX_NOTED = 100_000


class HostAddresses:
    """One for each node; used by the fetch loop's thread alone."""

    def __init__(self, resolvers: Resolvers) -> None:
        self._resolvers = resolvers
        self._noted: set[int] = set()

    def find_new(self, job: LeasedJob) -> HostAddress | None:
        """The address of the host that answered a job; None: it is noted, or a proxy alone knows it."""
        if job.host in self._noted or job.plan.host_key == urls.FILE_HOST_KEY:
            return None
        name = job.plan.host_key.rpartition(":")[0]
        address = literal_address(name) or self._resolvers.find_known(name)
        if address is None:
            return None
        if len(self._noted) >= _MAX_NOTED:
            self._noted.clear()
        self._noted.add(job.host)
        return HostAddress(address)
