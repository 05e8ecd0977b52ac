"""Nodes and the appender; the lists of modules that the template imports."""

SHARED = (
    "engine.queue",
    "engine.append.loop.output_dir",
    "engine.http.errors",
    "engine.robots.host_policy",
    "engine.store.pages.temporary",
    "engine.store.transactions.lease",
    "engine.store.transactions.placement",
    "engine.store.transactions.release",
    "engine.store.transactions.statistics",
)
"""What supervisor and template both need: it is imported before the one becomes a fork of the other."""

PROCESSES = (
    "engine.http.aiohttp_import:import_aiohttp",
    "engine.node.process",
    "engine.append.process",
    "engine.node.extraction.child",
)
"""What the template imports for them (engine.processes.launcher.OwnTemplate)."""
