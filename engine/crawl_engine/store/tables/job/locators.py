"""Writes the table `locators`: the requests of locators, one row for all jobs that send it."""

from typing import Any

import orjson
from msgspec import Struct

from crawl_engine.model.locator import Series, SitemapRules
from crawl_engine.model.stored_form import from_plain
from crawl_engine.store.db.connector import Database

_ENSURE = """
INSERT INTO locators (run, grp, name, request) VALUES (?, ?, ?, ?)
ON CONFLICT (run, grp, name, request) DO NOTHING RETURNING id
"""
_FIND = "SELECT id FROM locators WHERE run = ? AND grp = ? AND name = ? AND request = ?"


def ensure(db: Database, run: int, group: str, name: str, request: str) -> int:
    """The id of a locator. `request` is the JSON that `candidates.parse_request` reads; names need not be unique."""
    key = (run, group, name, request)
    created = db.value(_ENSURE, key)
    return int(created if created is not None else db.value(_FIND, key))


def get_series(db: Database, locator: int) -> Series | None:
    """The pages of a locator that follow one another; None: it has no series."""
    series: Series | None = _read_part(db, locator, "series", Series)
    return series


def get_sitemap_rules(db: Database, locator: int) -> SitemapRules | None:
    """The rules for the entries of a locator's sitemap; None: all are followed."""
    rules: SitemapRules | None = _read_part(db, locator, "sitemap", SitemapRules)
    return rules


def _read_part(db: Database, locator: int, key: str, kind: type[Struct]) -> Any:
    text = db.value("SELECT request FROM locators WHERE id = ?", (locator,))
    stored = None if text is None else orjson.loads(text).get(key)
    return None if stored is None else from_plain(kind, stored)
