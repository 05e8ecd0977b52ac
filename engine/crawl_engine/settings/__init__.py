"""The settings of a crawl: their declaration with bounds, and the sources that give their values."""

from crawl_engine.settings.declaration import Settings, usable_cpus
from crawl_engine.settings.load import Setting, find_setting, load_settings, parse_assignment, resolve_settings

__all__ = [
    "Setting", "Settings", "find_setting", "load_settings", "parse_assignment", "resolve_settings", "usable_cpus",
]  # fmt: skip
