"""Shares the cookies of sites among the nodes of a run, encrypted, through the store."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from engine.fetch.cookies import SessionCookies
from engine.model.job import LeasedJob
from engine.model.secret import COOKIE_KEY_ID
from engine.node.def_cache import DefCache
from engine.node.requests.secrets import SecretValues
from engine.store.db.connector import Database
from engine.store.tables import cookie_jars
from engine.store.tables.cookie_jars import EncryptedJar

if TYPE_CHECKING:
    from engine.fetch.jar_cipher import JarCipher

_log = logging.getLogger(__name__)


class SharedJars:
    """One for each node. The queue's worker and the committer load, the committer writes, the fetch loop waits."""

    def __init__(
        self, *, node: int, run: int, cookies: SessionCookies, secrets: SecretValues, def_cache: DefCache
    ) -> None:
        self._node = node
        self._run = run
        self._cookies = cookies
        self._secrets = secrets
        self._def_cache = def_cache
        self._lock = threading.Lock()
        self._cipher: JarCipher | None = None
        self._version = 0
        """Of the newest jar that was taken over."""
        self._is_loaded = False
        self._has_warned = False

    def load(self, db: Database, jobs: Sequence[LeasedJob]) -> None:
        """Take over what other nodes have written, before these jobs start; nothing if no host shares cookies.

        Without the key, which the supervisor may still be sending, `prepare` does it.
        """
        version = max((job.defs_version for job in jobs), default=0)
        if not version or not self._def_cache.shares_cookies(version):
            return
        with self._lock:
            if self._find_cipher() is None:
                self._is_loaded = False
                return
            self._take_over(db)

    async def prepare(self, read: Callable[[Callable[[Database], None]], None]) -> None:
        """Before a request to a host that shares cookies: have those of the run. `read`: calls with a reader.

        Raises what `SecretValues.open` does.
        """
        if self._is_loaded:
            return
        await self._secrets.open(f"%{{secret.{COOKIE_KEY_ID}}}")
        with self._lock:
            if not self._is_loaded and self._find_cipher() is not None:
                read(self._take_over)

    def jar(self, site: str) -> "SharedJar":
        """The jar of a site that has changed, to be written with the next commit."""
        return SharedJar(self, site)

    def write(self, db: Database, run: int, site: str) -> None:
        """Write the cookies of a site in the open transaction, merged with those that another node has written."""
        with self._lock:
            cipher = self._find_cipher()
            if cipher is None:
                return  # the page was sent before the supervisor gave the key; the next change is written
            stored = cookie_jars.get(db, run, site)
            if stored is not None and stored.node != self._node:
                self._merge(site, stored)
            jar = EncryptedJar(cipher.name, cipher.encrypt(site, self._cookies.export(site)), self._node)
            cookie_jars.put(db, run, site, jar, now=time.time())

    def _take_over(self, db: Database) -> None:
        for newer in cookie_jars.list_newer(db, self._run, self._version, self._node):
            self._merge(newer.site, newer.jar)
            self._version = newer.version
        self._is_loaded = True

    def _merge(self, site: str, jar: EncryptedJar) -> None:
        from engine.fetch.jar_cipher import JarUnreadable

        assert self._cipher is not None
        try:
            self._cookies.merge(site, self._cipher.decrypt(site, jar.jar))
        except JarUnreadable:
            if not self._has_warned:
                self._has_warned = True
                _log.warning("the cookies of %s cannot be decrypted: they are ignored", site)

    def _find_cipher(self) -> "JarCipher | None":
        if self._cipher is None:
            key = self._secrets.find(COOKIE_KEY_ID)
            if key is not None:
                from engine.fetch.jar_cipher import JarCipher  # 20 ms: only crawls that share cookies need it

                self._cipher = JarCipher(key)
        return self._cipher


class SharedJar(Struct, frozen=True):
    """The cookies of a site that answers have changed."""

    jars: SharedJars
    site: str

    def write(self, db: Database, run: int) -> None:
        """Write them in the open transaction, merged with what other nodes have written."""
        self.jars.write(db, run, self.site)
