"""The def language: the keys of task groups and tasks."""

from typing import Any

from pydantic import ConfigDict, Field, model_validator

from engine.defs.scalars import Duration, NonNegativeInteger, PositiveInteger, Priority, Term, Text, optional


class PersistTerm(Term):
    """A key of Scoopi."""

    data: bool = optional("Without effect: the rows of a stored document are extracted again.")


class TaskTerm(Term):
    """One dataDef applied to the group's pages."""

    data_def: Text = Field(description="The name of a dataDef.")
    steps: Any = optional(
        "The name of a step set, or a set with the steps to change in it.",
        json_schema_extra={"type": ["string", "object"]},
    )
    persist: PersistTerm = optional("A key of Scoopi, without effect: `live` decides whether a stored document serves.")


class RecrawlTerm(Term):
    """How often a page is asked for again."""

    min: Duration = optional("A page is not asked for again sooner; default PT1H.")
    max: Duration = optional("A page is asked for again at the latest after this time; default P30D.")
    adapt: bool = optional(
        "Whether the time between doubles when a page has not changed and halves when it has; default true."
    )


LATER_RESERVED = frozenset({"canonical", "revalidate", "recrawl"})
"""Reserved keys of a task group that tasks had as names before: with a `dataDef` they are still tasks."""
_TASK_MARK = "\0"


def unmarked(name: str) -> str:
    """The name of a task as written."""
    return name.removesuffix(_TASK_MARK)


def _is_task(written: Any) -> bool:
    return isinstance(written, dict) and "dataDef" in written


class TaskGroupTerm(Term):
    """What to do with the pages of a group: reserved keys, and tasks by name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, TaskTerm] = Field(init=False)

    live: Duration = optional(
        "How long a stored document replaces a fetch; an ISO 8601 duration such as P1D; default PT0S."
    )
    max_depth: NonNegativeInteger = optional("Do not follow links deeper than this; a locator's page has depth 0.")
    max_pages: PositiveInteger = optional("The maximum number of pages of the group to fetch.")
    priority: Priority = optional("Pages with a higher priority are fetched first; default 0.")
    documents: bool = optional("Whether stored pages are kept beyond the end of their run; default true.")
    canonical: bool = optional(
        "Whether a page whose canonical URL is another one is skipped in favour of that; default false."
    )
    revalidate: bool = optional(
        "Whether stored pages are asked for with their ETag and Last-Modified, and serve if the site has no newer ones."
    )
    recrawl: RecrawlTerm = optional("How often pages are asked for again, by how often each has changed.")

    @model_validator(mode="before")
    @classmethod
    def _mark_tasks(cls, written: Any) -> Any:
        """Tells tasks from reserved keys of their name."""
        if not isinstance(written, dict):
            return written
        tasks = {name for name in LATER_RESERVED & written.keys() if _is_task(written[name])}
        return {f"{name}{_TASK_MARK}" if name in tasks else name: item for name, item in written.items()}

    @property
    def tasks(self) -> dict[str, TaskTerm]:
        """The tasks by name, in written order."""
        return {unmarked(name): task for name, task in (self.__pydantic_extra__ or {}).items()}
