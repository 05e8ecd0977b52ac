"""Decides when a stored page replaces a fetch, and asks for changes by ETag and date."""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from crawl_engine.http.redirects import RedirectChain, build_target_request
from crawl_engine.http.response import redact_headers
from crawl_engine.model.job import JobKind, LeasedJob, Request, StoredPage, document_key
from crawl_engine.node.db_access import DbAccess
from crawl_engine.runtime.mail_date import read_mail_date
from crawl_engine.store.pages.documents import NewDocument

_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_MAX_ETAG = 1_024
_OF_MESSAGE = ("content-", "transfer-encoding", "connection", "keep-alive", "trailer", "upgrade")
"""How the names of headers begin that concern one message and its body alone."""
Headers = tuple[tuple[str, str], ...]
_CONDITIONS = frozenset({"if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range", "range"})


def next_document_key(job: LeasedJob) -> bytes:
    """The key of the document that a job requests next. A redirect to another origin drops credentials."""
    request = job.request
    if job.target is not None and request.variant:
        request = build_target_request(request, job.url, job.target)
    return document_key(job.target or job.url, request.method, request.body, request.variant)


class FreshnessRules:
    """One for each node. A document that the run has fetched or revalidated is always fresh."""

    def __init__(self, default_live: float) -> None:
        """`default_live`: seconds, for groups without `live`."""
        self._default_live = default_live

    def oldest(self, job: LeasedJob) -> float:
        """The wall-clock second before which no document is fresh for any page of the job's group."""
        if job.lineage.fresh_since is not None:
            return job.lineage.fresh_since
        group = job.plan.group
        if group.recrawl is not None:
            return time.time() - group.recrawl.max
        return time.time() - (self._default_live if group.live is None else group.live)

    def is_fresh(self, job: LeasedJob, stored: StoredPage) -> bool:
        """Whether a document replaces the fetch of the job."""
        if stored.of_this_run:
            return True
        group = job.plan.group
        if job.lineage.fresh_since is None and group.recrawl is not None:
            return stored.asked_at > time.time() - group.recrawl.clamp(stored.recrawl_after)
        return stored.asked_at > self.oldest(job)

    def is_file_fresh(self, job: LeasedJob, at: float) -> bool:
        """Whether a file of that wall-clock second needs no request. With `recrawl` the site is always asked."""
        group = job.plan.group
        return group.recrawl is None and at > self.oldest(job)


def may_serve(job: LeasedJob, stored: StoredPage, is_own: Callable[[LeasedJob, StoredPage], bool]) -> bool:
    """Whether a document with the key of the job is one that the job would load, or has loaded.

    Another rule of a browser, or another plugin, makes another document of the same answer. The job keeps its own one:
    a changed loader makes no stored page stale.
    """
    return stored.loader is None or stored.loader == job.plan.loading or is_own(job, stored)


class StoredVersion(NamedTuple):
    """The stored version of a page."""

    stored: StoredPage
    digest: bytes | None
    """Digest of its document."""
    headers: Headers = ()
    conditions: Headers = ()
    """The headers of a request for a newer version; empty: the site gave no validators."""

    def add_conditions(self, request: Request) -> Request:
        """The request for a newer version."""
        return replace(request, headers=(*request.headers, *self.conditions)) if self.conditions else request

    def changed_headers(self, received: Headers) -> Headers | None:
        """Its headers as those of an answer 304 change them (RFC 9111, 3.2); None: they stay.

        Those that say how the body is to be read describe what is stored, and stay.
        """
        new = [(name, value) for name, value in redact_headers(received) if not name.startswith(_OF_MESSAGE)]
        names = {name for name, _ in new}
        headers = (*[pair for pair in self.headers if pair[0] not in names], *new)
        return None if sorted(headers) == sorted(self.headers) else headers


class Revalidation:
    """One for each node; used on the fetch loop's thread. Groups that always fetch cost nothing.

    The stored versions of the pages of a lease are read together, when the lease arrives.
    """

    def __init__(self, db_access: DbAccess) -> None:
        self._db_access = db_access
        self._loaded: dict[tuple[int, int], tuple[bytes, StoredVersion | None]] = {}
        """By lease key of a job: the key of its document, and its stored version."""

    def load(self, jobs: Iterable[LeasedJob]) -> None:
        """Read the stored versions of the pages that these jobs ask for."""
        asking = [job for job in jobs if job.stored is None and self._compares(job)]
        keys = list(map(next_document_key, asking))
        versions = self._read(asking, keys) if keys else []
        for job, key, version in zip(asking, keys, versions, strict=True):
            self._loaded[job.lease_key] = key, version

    def forget(self, job: LeasedJob) -> None:
        """Free the state of a job, however it ended."""
        self._loaded.pop(job.lease_key, None)

    def find(self, job: LeasedJob, chain: RedirectChain) -> StoredVersion | None:
        """The newest stored version of the page that the chain is at; None: no version, or the group compares none."""
        if not self._compares(job) or not chain.request.is_plain_get:
            return None
        key = chain.keys[-1]
        loaded_key, version = self._loaded.pop(job.lease_key, (None, None))
        if loaded_key != key:  # the target of a redirect, or a further attempt
            (version,) = self._read([job], [key])
        if version is None or not version.conditions:
            return version
        group = job.plan.group
        if not group.revalidate or any(name.lower() in _CONDITIONS for name, _ in chain.request.headers):
            return version._replace(conditions=())
        return version

    def recrawl_after(self, job: LeasedJob, before: StoredVersion | None, document: NewDocument | None) -> float | None:
        """Seconds after which the page is asked for again; None: its group does not say.

        Without a `document` the page is unchanged; otherwise it has changed if its bytes have.
        """
        recrawl = job.plan.group.recrawl
        if recrawl is None:
            return None
        if before is None:
            return recrawl.clamp(None)
        changed = document is not None and document.digest != before.digest
        return recrawl.following(before.stored.recrawl_after, changed=changed)

    def _compares(self, job: LeasedJob) -> bool:
        if job.kind is not JobKind.PAGE:
            return False
        group = job.plan.group
        return group.revalidate or group.recrawl is not None

    def _read(self, jobs: Sequence[LeasedJob], keys: Sequence[bytes]) -> list[StoredVersion | None]:
        """The newest stored version for each job and the key of its document."""
        good, is_own = self._db_access.good_documents(keys), self._db_access.is_own_document
        newest = [
            next((one for one in reversed(good.get(key, ())) if may_serve(job, one[0], is_own)), None)
            for job, key in zip(jobs, keys, strict=True)
        ]
        as_came = self._db_access.page_headers([one[0].page for one in newest if one is not None])
        versions: list[StoredVersion | None] = []
        for one in newest:
            if one is None:
                versions.append(None)
                continue
            stored, digest = one
            headers = stored.headers or as_came.get(stored.page, ())
            versions.append(StoredVersion(stored, digest, headers, list_conditions(headers)))
        return versions


def list_conditions(headers: Headers) -> Headers:
    """The headers that ask for a version newer than these response headers describe (RFC 9110, 13.1).

    Validators that break the standard are left out. So are those with `%{…}`, which would be replaced as a variable.
    """
    received = dict(headers)
    conditions = []
    etag, modified = received.get("etag", "").strip(), received.get("last-modified", "").strip()
    if len(etag) <= _MAX_ETAG and _ETAG.fullmatch(etag) and "%{" not in etag:
        conditions.append(("If-None-Match", etag))
    is_plain = modified.isascii() and modified.isprintable() and "%{" not in modified
    if modified and is_plain and read_mail_date(modified) is not None:
        conditions.append(("If-Modified-Since", modified))
    return tuple(conditions)
