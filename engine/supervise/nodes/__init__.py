"""Nodes and the appender; the list of modules that the template imports."""

PROCESSES = (
    "engine.http.aiohttp_import:import_aiohttp",
    "engine.node.process",
    "engine.append.process",
    "engine.node.extraction.child",
)
"""What the template imports for them (engine.processes.launcher.OwnTemplate)."""
