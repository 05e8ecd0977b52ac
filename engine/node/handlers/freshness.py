"""Decides which stored documents replace the fetch of a job: by its group, and by the sitemap that names its page."""

import time

from engine.model.job import LeasedJob, StoredPage
from engine.node.def_cache import DefCache


class FreshnessRules:
    """One for each node. A document that the run has fetched or asked for is fresh in any case."""

    def __init__(self, def_cache: DefCache, default_live: float) -> None:
        """`default_live`: seconds, for groups that do not say."""
        self._def_cache = def_cache
        self._default_live = default_live

    def oldest(self, job: LeasedJob) -> float:
        """The wall-clock second before which no document is fresh, for whatever page of the job's group."""
        if job.fresh_since is not None:
            return job.fresh_since
        group = self._def_cache.task_group(job.defs_version, job.group)
        if group.recrawl is not None:
            return time.time() - group.recrawl.max
        return time.time() - (self._default_live if group.live is None else group.live)

    def is_fresh(self, job: LeasedJob, stored: StoredPage) -> bool:
        """Whether a document replaces the fetch of the job."""
        if stored.of_this_run:
            return True
        group = self._def_cache.task_group(job.defs_version, job.group)
        if job.fresh_since is None and group.recrawl is not None:
            return stored.asked_at > time.time() - group.recrawl.clamp(stored.recrawl_after)
        return stored.asked_at > self.oldest(job)
