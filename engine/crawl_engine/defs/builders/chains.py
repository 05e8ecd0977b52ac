"""Compiles the steps of each task into a chain: built-in sets, overrides, insertions, branches."""

from collections.abc import Callable, Container, Mapping

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.defs.builders.steps import (
    COMMAND,
    KIND_RANKS,
    LOCATOR_CREATOR,
    RANKS,
    STEP_CLASSES,
    STEP_SETS,
    default_chain,
    read_step,
    short_class_name,
)
from crawl_engine.defs.language.keys import data_def_of, iter_all_tasks
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import Entry, YamlNode
from crawl_engine.errors import suggest
from crawl_engine.model.step import ChainStep
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.plugins.catalog import Catalog

START, END, SEEDER = "start", "end", "seeder"
Chains = Mapping[tuple[str, str], tuple[ChainStep, ...]]
"""By group and task: the main line in order, then side branches. Empty: the default chain."""
DEFAULT: tuple[ChainStep, ...] = ()
"""Of a task without `steps`."""


class _Chain(Struct):
    """A chain while it is built. `branches`: the steps of side branches by name, each with its `previous`."""

    main: list[ChainStep]
    branches: list[ChainStep]

    def index(self, name: str | None) -> int | None:
        """The position of a step in the main line."""
        return next((index for index, step in enumerate(self.main) if step.name == name), None)

    def names(self) -> list[str]:
        """The names of all steps."""
        return [step.name for step in (*self.main, *self.branches)]


def compile_chains(
    root: YamlNode, catalog: Catalog, problems: Problems, tables: Container[str], default_steps: str
) -> Chains:
    """Every step of each task. Also reports the problems of sets that no task uses.

    `tables`: the dataDefs whose tasks have the step set `default_steps` where they name none.
    """
    compiler = _Compiler(root, catalog, problems)
    for name in dict(root.entries_of("steps")):
        compiler.resolve(name)
    chains = {}
    for group, task, entry in iter_all_tasks(root):
        default = default_steps if data_def_of(entry) in tables else None
        chain = compiler.compile_task(entry.node, entry.place, default)
        if chain is not None:
            chains[group, task] = chain
    return chains


def stored_chain(steps: tuple[ChainStep, ...], *, is_table: bool) -> tuple[ChainStep, ...]:
    """The chain to store: empty where the extractor does all of it. `is_table`: whether its dataDef is one."""
    return () if all(not step.is_plugin and (is_table or not step.previous) for step in steps) else steps


class _Misplaced(Exception):
    """A step stands in the wrong place; the problem is already reported."""


class _Compiler:
    def __init__(self, root: YamlNode, catalog: Catalog, problems: Problems) -> None:
        self._custom = dict(root.entries_of("steps"))
        self._catalog = catalog
        self._problems = problems
        self._names = sorted({*STEP_SETS, *self._custom})
        self._resolved: dict[str, _Chain | None] = {}
        self._resolving: list[str] = []

    def compile_task(
        self, task: YamlNode, place: SourcePosition, default_steps: str | None
    ) -> tuple[ChainStep, ...] | None:
        """The chain of a task; None: it has a problem. `default_steps`: its set if it names none."""
        chosen = task.get("steps")
        chain: _Chain | None
        if chosen is None:
            if "steps" in task.entries:
                self._add(task.key_place("steps"), "wrong-type", "`steps` must be the name of a step set, not nothing")
            return DEFAULT if default_steps is None else self._default_of_tables(default_steps, place)
        if chosen.kind == "list":
            self._add(chosen.place, "wrong-type", "`steps` must be the name of a step set, not a list")
            return None
        if chosen.kind == "scalar":
            if chosen.text not in self._names:
                message = f"unknown step set '{chosen.text}'{suggest(chosen.text, self._names)}"
                self._add(chosen.place, "unknown-steps", message)
                return None
            chain = self.resolve(chosen.text)
        else:
            chain = self._override_of(chosen, chosen.place)
        if chain is None:
            return None
        return (*chain.main, *chain.branches)

    def _default_of_tables(self, name: str, place: SourcePosition) -> tuple[ChainStep, ...] | None:
        """The chain of the set that the setting names: one of these defs, or a built-in one."""
        if name not in self._names:
            message = f"the setting default_steps names no step set: '{name}'{suggest(name, self._names)}"
            self._add(place, "unknown-steps", message)
            return None
        if name not in self._custom:
            return DEFAULT
        chain = self.resolve(name)
        return None if chain is None else (*chain.main, *chain.branches)

    def resolve(self, name: str) -> _Chain | None:
        """The chain of a set; None: it has a problem."""
        if name in self._custom:
            if name not in self._resolved:
                self._resolved[name] = None
                self._resolving.append(name)
                self._resolved[name] = self._read_set(self._custom[name])
                self._resolving.pop()
            chain = self._resolved[name]
            return None if chain is None else _Chain(list(chain.main), list(chain.branches))
        return _Chain(default_chain(name), [])

    def _read_set(self, entry: Entry) -> _Chain | None:
        if entry.node.kind != "mapping":
            message = f"a step set must be a mapping of steps, not {entry.node.describe()}"
            self._add(entry.place, "wrong-type", message)
            return None
        if any(self._is_set(name, part.node) for name, part in entry.node.entries.items()):
            return self._override_of(entry.node, entry.place)
        return self._read_whole_set(entry)

    def _is_set(self, name: str, node: YamlNode) -> bool:
        """Whether a key of a set names another set, and not a step."""
        return name in self._names and not any(key in node.entries for key in ("class", "previous", "next"))

    def _override_of(self, node: YamlNode, place: SourcePosition) -> _Chain | None:
        """The chain of a mapping with one set, and the steps that it changes there."""
        if len(node.entries) != 1:
            names = ", ".join(node.entries) or "nothing"
            self._add(place, "conflict", f"changed steps need one set that they change, not {names}")
            return None
        [(base, entry)] = node.entries.items()
        if base not in self._names:
            self._add(entry.place, "unknown-steps", f"unknown step set '{base}'{suggest(base, self._names)}")
            return None
        if base in self._resolving:
            path = " → ".join([*self._resolving, base])
            self._add(entry.place, "step-cycle", f"the step set '{base}' is made of itself: {path}")
            return None
        chain = self.resolve(base)
        if entry.node.is_null:
            return chain
        if entry.node.kind != "mapping":
            message = f"a step set must be a mapping of steps, not {entry.node.describe()}"
            self._add(entry.place, "wrong-type", message)
            return None
        return None if chain is None else self._change(chain, entry)

    def _change(self, chain: _Chain, entry: Entry) -> _Chain | None:
        """Replace steps of the same name; insert the others between their neighbours, in written order."""
        steps = entry.node.entries
        base = chain.names()
        usable = True
        waiting: dict[str, tuple[ChainStep, Entry]] = {}
        for name, part in steps.items():
            step = read_step(name, part, self._catalog, self._problems, replaces=name in base)
            if step is None:
                usable = False
            elif name in base:
                index = chain.index(name)
                if index is not None:
                    chain.main[index] = step
                else:
                    chain.branches = [
                        replace(step, previous=s.previous) if s.name == name else s for s in chain.branches
                    ]
            else:
                waiting[name] = (step, part)
        for name, part in steps.items():
            if name not in base:
                usable &= self._check_neighbours(name, part, {*base, *steps})
        while usable and waiting:
            try:
                placed = [name for name, (step, part) in waiting.items() if self._insert(chain, step, part, base)]
            except _Misplaced:
                return None
            if not placed:
                name, (_, part) = next(iter(waiting.items()))
                self._add_cycle(name, part)
                return None
            for name in placed:
                del waiting[name]
        return chain if usable and self._check_order(chain, entry.place, steps) else None

    def _insert(self, chain: _Chain, step: ChainStep, entry: Entry, base: list[str]) -> bool:
        """Put a step into the chain; False: a neighbour is not in it yet."""
        previous, following = entry.node.text_of("previous") or "", entry.node.text_of("next") or ""
        before, after = chain.index(previous), chain.index(following)
        if following == SEEDER or any(previous == branch.name for branch in chain.branches):
            if previous not in chain.names():
                return False
            chain.branches.append(replace(step, previous=previous))
            return True
        if before is None or (after is None and following != END):
            return False
        end = len(chain.main) if after is None else after
        between = [s.name for s in chain.main[before + 1 : end] if s.name in base]
        if end <= before or between:
            reason = f"'{between[0]}' lies between them" if between else f"'{following}' comes before '{previous}'"
            message = f"'{step.name}' cannot stand between '{previous}' and '{following}': {reason}"
            self._add(_key_place(entry, "previous"), "unknown-step", message)
            raise _Misplaced
        chain.main.insert(end, step)
        return True

    def _read_whole_set(self, entry: Entry) -> _Chain | None:
        """The chain of a set that lists all its steps, by their `next`."""
        steps = entry.node.entries
        read = {
            name: read_step(name, part, self._catalog, self._problems, replaces=False) for name, part in steps.items()
        }
        usable = all(read.values())
        for name, part in steps.items():
            usable &= self._check_neighbours(name, part, set(steps))
            if self._leads_back(name, steps):
                usable = False
                self._add_cycle(name, part)
        starts = [name for name, part in steps.items() if part.node.text_of("previous") == START]
        if usable and len(starts) != 1:
            self._add(entry.place, "unknown-step", "a step set needs one step with `previous: start`")
            return None
        if not usable:
            return None
        chain = _Chain([], [])
        self._follow(chain, starts[0], steps, read)
        for name in [name for name in steps if name not in chain.names()]:
            part, step = steps[name], read[name]
            assert step is not None
            if part.node.text_of("next") == SEEDER:
                chain.branches.append(replace(step, previous=part.node.text_of("previous") or ""))
            else:
                usable = False
                message = f"no step leads to '{name}': write its name as the `next` of the step before it"
                self._add(part.place, "unknown-step", message)
        return chain if usable and self._check_order(chain, entry.place, steps) else None

    def _follow(
        self, chain: _Chain, name: str, steps: Mapping[str, Entry], read: Mapping[str, ChainStep | None]
    ) -> None:
        while name in steps and name not in chain.names():
            step = read[name]
            assert step is not None
            chain.main.append(step)
            name = steps[name].node.text_of("next") or END

    def _leads_back(self, name: str, steps: Mapping[str, Entry]) -> bool:
        seen, at = set[str](), name
        while at in steps and at not in seen:
            seen.add(at)
            at = steps[at].node.text_of("next") or END
        return at == name

    def _check_neighbours(self, name: str, entry: Entry, names: set[str]) -> bool:
        usable = True
        class_name = short_class_name(entry.node.text_of("class") or "")
        if entry.node.text_of("next") == SEEDER and class_name in STEP_CLASSES - {LOCATOR_CREATOR}:
            usable = False
            self._add_cycle(name, entry)
        for key, edge in (("previous", START), ("next", END)):
            node = entry.node.get(key)
            if node is not None and node.kind == "scalar" and node.text not in names | {edge, SEEDER}:
                message = f"unknown step '{node.text}' in this set{suggest(node.text, sorted(names))}"
                self._add(node.place, "unknown-step", message)
                usable = False
        return usable

    def _check_order(self, chain: _Chain, place: SourcePosition, steps: Mapping[str, Entry]) -> bool:
        """Seeder, loader and parser come first, the appender last; loader, parser and appender are there once."""
        usable = True

        def complain(name: str, message: str) -> None:
            nonlocal usable
            usable = False
            self._add(steps[name].place if name in steps else place, "step-order", message)

        self._check_ranks(chain, complain)
        ranks = [_rank(step) for step in chain.main]
        for rank, noun in ((1, "loader"), (2, "parser"), (4, "appender")):
            if ranks.count(rank) != 1 and usable:
                complain("", f"a step set needs one {noun}; this one has {ranks.count(rank)}")
        return usable

    def _check_ranks(self, chain: _Chain, complain: Callable[[str, str], None]) -> None:
        highest, before = 0, ""
        for step in chain.main:
            rank = _rank(step)
            if step.class_name == LOCATOR_CREATOR:
                complain(
                    step.name, f"'{step.name}': {LOCATOR_CREATOR} makes jobs: it ends a side branch, `next: seeder`"
                )
            elif rank < highest and highest != 3:
                complain(step.name, f"'{step.name}' ({step.class_name}) must stand before '{before}'")
            elif rank == 3 and highest < 2:
                complain(step.name, f"'{step.name}' works on rows: it must stand after the parser")
            if rank > highest or not before:
                highest, before = max(highest, rank), step.name
        for step in chain.branches:
            if _rank(step) != 3:
                complain(step.name, f"'{step.name}' ({step.class_name}) cannot stand on a side branch")
            elif step.class_name == COMMAND:
                complain(step.name, f"'{step.name}': a command cannot stand on a side branch")

    def _add_cycle(self, name: str, entry: Entry) -> None:
        message = f"the steps after '{name}' lead back to it; set `next: end` on the last of them"
        self._add(_key_place(entry, "next"), "step-cycle", message)

    def _add(self, place: SourcePosition, code: str, message: str) -> None:
        self._problems.add(place, code, message)


def _rank(step: ChainStep) -> int:
    return RANKS[step.class_name] if step.kind == "built-in" else KIND_RANKS[step.kind]


def _key_place(entry: Entry, key: str) -> SourcePosition:
    node = entry.node.get(key)
    return entry.place if node is None else node.place
