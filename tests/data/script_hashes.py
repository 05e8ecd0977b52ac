"""Hashes of the statements of schema scripts: comments and spaces do not count."""

import hashlib
import re

from engine.store.db import schema


def hash_scripts() -> dict[str, list[str]]:
    """By database file: the hash of each script, in order."""
    return {
        file: [hash_statements((schema._SQL_DIR / name).read_text("utf-8")) for name in scripts]
        for file, scripts in schema.MIGRATIONS.items()
    }


def hash_statements(script: str) -> str:
    """The hash of a script's statements."""
    without_comments = re.sub(r"--[^\n]*", "", script)
    return hashlib.sha256(" ".join(without_comments.split()).encode()).hexdigest()[:32]
