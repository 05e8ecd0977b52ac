"""Shares the cookies of sites among the nodes of a run, through the store."""

import threading
from collections.abc import Sequence

import orjson
from msgspec import Struct

from crawl_engine.http.cookies import SessionCookies
from crawl_engine.model.job import LeasedJob
from crawl_engine.node.node_context import NodeContext
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.host import cookie_jars
from crawl_engine.store.tables.host.cookie_jars import StoredJar


class SharedJars:
    """One for each node. The queue's worker and the committer load, the committer writes."""

    def __init__(self, node: NodeContext, cookies: SessionCookies) -> None:
        self._node = node
        self._cookies = cookies
        self._lock = threading.Lock()
        self._version = 0
        """The newest jar that was taken over."""

    def load(self, db: Database, jobs: Sequence[LeasedJob]) -> None:
        """Take over the cookies of other nodes before these jobs start; without shared cookies do nothing."""
        version = max((job.defs_version for job in jobs), default=0)
        if not version or not self._node.def_cache.version(version).shares_cookies:
            return
        with self._lock:
            for newer in cookie_jars.list_newer(db, self._node.run.seq, self._version, self._node.epoch):
                self._cookies.merge(newer.site, orjson.loads(newer.jar.jar))
                self._version = newer.version

    def jar(self, site: str) -> "SharedJar":
        """The jar of a changed site, to be written with the next commit."""
        return SharedJar(self, site)

    def write(self, db: Database, run: int, site: str) -> None:
        """Write the cookies of a site in the open transaction, merged with those of another node."""
        with self._lock:
            stored = cookie_jars.get(db, run, site)
            if stored is not None and stored.node != self._node.epoch:
                self._cookies.merge(site, orjson.loads(stored.jar))
            jar = StoredJar(orjson.dumps(self._cookies.export(site)), self._node.epoch)
            cookie_jars.put(db, run, site, jar)


class SharedJar(Struct, frozen=True):
    """The changed cookies of a site."""

    jars: SharedJars
    site: str

    def write(self, db: Database, run: int) -> None:
        """Write them in the open transaction, merged with those of other nodes."""
        self.jars.write(db, run, self.site)
