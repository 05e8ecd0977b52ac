"""Nodes and the appender; the lists of modules that the template imports."""

SHARED = (
    "engine.queue",
    "engine.append.loop.output_dir",
    "engine.extract.fields.human_dates",
    "engine.extract.links.form_encoding",
    "engine.extract.select.css",
    "engine.extract.select.selector_syntax",
    "engine.http.errors",
    "engine.model.retry_policy",
    "engine.plugins",
    "engine.robots.host_policy",
    "engine.runtime.extras",
    "engine.runtime.file_folder",
    "engine.runtime.host_clock",
    "engine.store.pages.temporary",
    "engine.store.tables.job.locators",
    "engine.store.tables.job.results",
    "engine.store.tables.output.deliveries",
    "engine.store.tables.row.health",
    "engine.store.tables.run.page_repeats",
    "engine.store.transactions.lease",
    "engine.store.transactions.placement",
    "engine.store.transactions.release",
    "engine.store.transactions.statistics",
)
"""What supervisor and template both need: it is imported before the one becomes a fork of the other."""

PROCESSES = (
    "engine.node.process",
    "engine.append.process",
    "engine.node.extraction.child",
)
"""What the template imports for them (engine.processes.launcher.OwnTemplate)."""
