"""Which pages of a run may hold a row that another page gave before: decided by the groups of the defs."""

from msgspec import Struct

from engine.model.definition import DataDef, Definitions, Task, TaskGroup


class ChangeScope(Struct, frozen=True):
    """The groups whose pages need not be read to know that a row of a dataDef is gone. All others do."""

    irrelevant: frozenset[str]
    """Groups whose pages neither have such rows nor lead to other pages."""
    fixed: frozenset[str]
    """Groups whose pages lead nowhere and have one record each: a page that the earlier run knew holds that still."""

    @classmethod
    def of_data_def(cls, definitions: Definitions, data_def: DataDef) -> "ChangeScope":
        """The scope of a dataDef of these defs."""
        leaves = [group for group in definitions.task_groups if _is_leaf(definitions, group)]
        extracting = [group for group in leaves if any(task.data_def == data_def.name for task in group.tasks)]
        has_one_record = data_def.block is None and data_def.axis is None
        return cls(
            frozenset(group.name for group in leaves if group not in extracting),
            frozenset(group.name for group in extracting if has_one_record),
        )


def _is_leaf(definitions: Definitions, group: TaskGroup) -> bool:
    """Whether pages of a group lead to no others. Users' code may, and so do the steps of a table."""
    if group.canonical or any(map(_has_own_chain, group.tasks)):
        return False
    data_defs = [definitions.data_def(task.data_def) for task in group.tasks]
    return not any(d is None or d.links or d.next is not None or d.axis is not None for d in data_defs)


def _has_own_chain(task: Task) -> bool:
    return any(step.is_users_code or step.previous for step in task.chain)
