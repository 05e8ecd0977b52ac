"""Nodes and the appender: started, watched, replaced, stopped."""

PROCESSES = (
    "engine.http.aiohttp_import:import_aiohttp",
    "engine.node.process",
    "engine.append.process",
    "engine.node.extraction.child",
)
"""What the template imports for them (engine.processes.launcher.start_template)."""
