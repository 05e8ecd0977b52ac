"""A node, as its parts know it."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.node.node_context import NodeContext
from crawl_engine.node.pipeline import Pipeline
from crawl_engine.node.requests.request_sender import RequestSender
from crawl_engine.node.requests.robots_cache import RobotsCache
from crawl_engine.settings import Settings


def node_context(**known: Any) -> NodeContext:
    defaults: dict[str, Any] = {
        "name": "n1", "folder": Path(), "run": Mock(seq=1, id="r", created_at=0.0, base_url=None), "epoch": 1,
        "settings": Settings(), "def_cache": Mock(), "on_fenced": lambda: None, "on_error": fail,
    }  # fmt: skip
    return NodeContext(**{**defaults, **known})


def pipeline_of(
    byte_budget: ByteBudget, *, page_extractor: Any = None, db_access: Any = None, def_cache: Any = None
) -> Pipeline:
    """A pipeline over these parts, and no others."""
    node = node_context(def_cache=def_cache or Mock())
    sender = RequestSender(
        settings=node.settings, def_cache=node.def_cache, fetcher=Mock(), db_access=(store := db_access or Mock()),
        robots_cache=RobotsCache(store, "us", Mock()), named_hosts=Mock(), host_gates=Mock(), group_loaders=Mock(),
        file_parts=Mock(),
    )  # fmt: skip
    return Pipeline(
        node, sender=sender, shared_jars=Mock(), page_extractor=page_extractor or Mock(), byte_budget=byte_budget,
        login_page_reader=Mock(),
    )  # fmt: skip


def fail(error: Exception) -> None:
    raise AssertionError from error
