"""Decides which dataDefs make the same rows of a document for every job, so that the rows may be copied."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from engine.model.definition import DataDef, Definitions, Field
from engine.model.variables import variable_names

COPYABLE_VARIABLES = frozenset({"document.url", "document.status"})
"""Variables whose values belong to the document itself; others belong to the job or to the run."""


def list_volatile_variables(data_def: DataDef) -> tuple[str, ...]:
    """The variables of a dataDef that may differ between two jobs on one document. Its rows are not copied.

    Every text of the dataDef counts, whether its variables are replaced or not. The rows of a table name the locator.
    """
    if data_def.axis is not None:
        return ("locator.name",)
    names = [name for text in _iter_texts(data_def) for name in variable_names(text)]
    if any(field.locale is not None for field in _iter_fields(data_def.fields)):
        names.append("document.fetchedAt")  # relative dates refer to it
    return tuple(dict.fromkeys(name for name in names if name not in COPYABLE_VARIABLES))


def list_copied_data_defs(definitions: Definitions, group: str) -> frozenset[str]:
    """The dataDefs of a group whose rows may be copied: each of their tasks persists, and the document alone decides.

    One without fields makes no rows: it is left out. A group has none whose pages lead on with values of theirs.
    """
    task_group = definitions.task_group(group)
    if task_group is None or not any(task.copy_rows for task in task_group.tasks):
        return frozenset()
    names = {task.data_def for task in task_group.tasks} - {t.data_def for t in task_group.tasks if not t.copy_rows}
    if task_group.canonical or any(_leads_on_by_content(definitions, task.data_def) for task in task_group.tasks):
        return frozenset()
    used = (data_def for name in names if (data_def := definitions.data_def(name)) is not None)
    return frozenset(one.name for one in used if one.fields and not list_volatile_variables(one) and not has_files(one))


def has_files(data_def: DataDef) -> bool:
    """Whether a field names files: they are in the output folder of one run, and are downloaded again by the next."""
    return any(field.type == "file" for field in _iter_fields(data_def.fields))


def _leads_on_by_content(definitions: Definitions, name: str) -> bool:
    """Whether the links of a dataDef, or its next page, hold values of the page: they are not kept."""
    data_def = definitions.data_def(name)
    return data_def is not None and (data_def.next is not None or any(link.reads_records for link in data_def.links))


def _iter_fields(fields_: tuple[Field, ...]) -> Iterator[Field]:
    for field in fields_:
        yield field
        yield from _iter_fields(field.fields)


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _iter_texts(getattr(value, name))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _iter_texts(key)
            yield from _iter_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _iter_texts(item)
