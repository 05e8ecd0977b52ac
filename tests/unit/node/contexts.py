"""A node, as its parts know it."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

from engine.node.node_context import NodeContext
from engine.settings import Settings


def node_context(**known: Any) -> NodeContext:
    defaults: dict[str, Any] = {
        "name": "n1", "folder": Path(), "run": Mock(seq=1, id="r", created_at=0.0, base_url=None), "epoch": 1,
        "settings": Settings(), "def_cache": Mock(), "on_fenced": lambda: None, "on_error": fail,
    }  # fmt: skip
    return NodeContext(**{**defaults, **known})


def fail(error: Exception) -> None:
    raise AssertionError from error
