"""Lists the steps of a task that have checkpoints of their own: those behind the loader."""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from engine.defs.steps import DATA_FILTER, KIND_RANKS, RANKS, RECORD_DEFAULT, STEP_SETS, default_chain
from engine.model.definition import Task
from engine.model.step import ChainStep

StepRole = Literal["seeder", "loader", "parser", "filter", "step", "appender"]
SEEDER: Final = "seeder"
LOADER: Final = "loader"
PARSER: Final = "parser"
FILTER: Final = "filter"
OTHER_STEP: Final = "step"
APPENDER: Final = "appender"
_LOADER_RANK, _PARSER_RANK, _APPENDER_RANK = 1, 2, 4


class TaskStep(NamedTuple):
    """A step behind the loader."""

    step: ChainStep
    role: StepRole
    previous: str | None
    """The step of the task before it; None: the loader of the group."""


def list_task_steps(task: Task) -> list[TaskStep]:
    """The main line of a task's chain behind its loader, then the side branches."""
    steps, shared = [], set[str]()
    previous: str | None = None
    for step in _chain_of(task):
        rank = _rank(step)
        if step.previous:
            steps.append(TaskStep(step, _role(step, rank), None if step.previous in shared else step.previous))
        elif rank <= _LOADER_RANK:
            shared.add(step.name)
        else:
            steps.append(TaskStep(step, _role(step, rank), previous))
            previous = step.name
    return steps


def list_users_loaders(tasks: Iterable[Task]) -> list[ChainStep]:
    """The loaders of these tasks that are users' code."""
    return [step for task in tasks for step in task.chain if step.kind == "loader"]


def _chain_of(task: Task) -> Iterable[ChainStep]:
    name = task.steps or RECORD_DEFAULT
    return task.chain or default_chain(name if name in STEP_SETS else RECORD_DEFAULT)


def _rank(step: ChainStep) -> int:
    return RANKS[step.class_name] if step.kind == "built-in" else KIND_RANKS[step.kind]


def _role(step: ChainStep, rank: int) -> StepRole:
    if rank == _PARSER_RANK:
        return PARSER
    if rank == _APPENDER_RANK:
        return APPENDER
    return FILTER if step.class_name == DATA_FILTER else OTHER_STEP
