"""Nodes and the appender; the lists of modules that the template imports."""

SHARED = (
    "crawl_engine.queue",
    "crawl_engine.append.loop.output_dir",
    "crawl_engine.extract.fields.convert",
    "crawl_engine.extract.fields.human_dates",
    "crawl_engine.extract.links.form_encoding",
    "crawl_engine.extract.select.css",
    "crawl_engine.extract.select.selector_syntax",
    "crawl_engine.extract.select.srcset",
    "crawl_engine.http.errors",
    "crawl_engine.model.retry_policy",
    "crawl_engine.model.run",
    "crawl_engine.plugins",
    "crawl_engine.robots.host_policy",
    "crawl_engine.runtime.extras",
    "crawl_engine.runtime.file_folder",
    "crawl_engine.runtime.host_clock",
    "crawl_engine.store.pages.temporary",
    "crawl_engine.store.tables.job.linked_jobs",
    "crawl_engine.store.tables.job.locators",
    "crawl_engine.store.tables.job.results",
    "crawl_engine.store.tables.output.deliveries",
    "crawl_engine.store.tables.row.health",
    "crawl_engine.store.tables.run.landings",
    "crawl_engine.store.tables.run.page_repeats",
    "crawl_engine.store.transactions.lease",
    "crawl_engine.store.transactions.placement",
    "crawl_engine.store.transactions.release",
    "crawl_engine.store.transactions.statistics",
)
"""What supervisor and template both need: it is imported before the one becomes a fork of the other."""

PROCESSES = (
    "crawl_engine.node.process",
    "crawl_engine.append.process",
    "crawl_engine.node.extraction.child",
)
"""What the template imports for them (crawl_engine.processes.launcher.OwnTemplate)."""
