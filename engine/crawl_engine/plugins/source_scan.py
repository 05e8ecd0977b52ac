"""Reads what a plugin's source defines, without running it: classes, their methods, imports."""

import ast
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace


class ScannedClass(Struct, frozen=True, kw_only=True):
    """A class of a module."""

    name: str
    line: int
    summary: str
    """The first line of its docstring."""
    methods: Mapping[str, "ScannedMethod"]
    """Including those of its bases in the same module."""
    texts: Mapping[str, str]
    """Its attributes with a literal text."""
    has_bases: bool
    """Whether it may inherit further methods."""


class ScannedMethod(Struct, frozen=True, kw_only=True):
    """A method, without its first argument."""

    line: int
    column: int
    required: int
    """Positional arguments without a default."""
    accepted: int | None
    """Positional arguments at most; None: any number."""
    names: tuple[str, ...] = ()
    """Names of the arguments that can be given by name."""
    required_names: tuple[str, ...] = ()
    """Those of them without a default."""
    takes_any_name: bool = False

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many positional arguments."""
        return self.required <= count and (self.accepted is None or count <= self.accepted)


class ScannedModule(Struct, frozen=True, kw_only=True):
    """A module: its classes and the dotted names that it imports; without `plugins.` and leading dots."""

    classes: Mapping[str, ScannedClass]
    imports: frozenset[str]


def scan_source(text: str) -> ScannedModule:
    """The top-level definitions of a source. Raises SyntaxError."""
    tree = ast.parse(text)
    classes: dict[str, ScannedClass] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            classes[node.name] = _inherit(_scan_class(node), node, classes)
    return ScannedModule(classes=classes, imports=frozenset(_imported_names(tree)))


def _scan_class(node: ast.ClassDef) -> ScannedClass:
    docstring = (ast.get_docstring(node) or "").strip()
    return ScannedClass(
        name=node.name,
        line=node.lineno,
        summary=docstring.splitlines()[0] if docstring else "",
        methods={
            item.name: _scan_method(item)
            for item in node.body
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
        },
        texts=dict(_text_attributes(node)),
        has_bases=any(not (isinstance(base, ast.Name) and base.id == "object") for base in node.bases),
    )


def _inherit(scanned: ScannedClass, node: ast.ClassDef, classes: Mapping[str, ScannedClass]) -> ScannedClass:
    """Add what the class inherits from classes above it in the module."""
    names = [base.id if isinstance(base, ast.Name) else "" for base in node.bases]
    bases = [classes[name] for name in names if name in classes]
    if not bases:
        return scanned
    methods, texts = dict(scanned.methods), dict(scanned.texts)
    for base in bases:
        methods = {**base.methods, **methods}
        texts = {**base.texts, **texts}
    has_other = any(name not in classes and name != "object" for name in names)
    return replace(scanned, methods=methods, texts=texts, has_bases=has_other or any(base.has_bases for base in bases))


def _text_attributes(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for item in node.body:
        if isinstance(item, ast.Assign | ast.AnnAssign) and isinstance(item.value, ast.Constant):
            targets = item.targets if isinstance(item, ast.Assign) else [item.target]
            if isinstance(text := item.value.value, str):
                yield from ((target.id, text) for target in targets if isinstance(target, ast.Name))


def _scan_method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ScannedMethod:
    is_static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
    arguments = node.args
    count = len(arguments.posonlyargs) + len(arguments.args) - (0 if is_static else 1)
    positional = [*arguments.posonlyargs, *arguments.args]
    with_default = {one.arg for one in positional[len(positional) - len(arguments.defaults) :]} | {
        one.arg for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is not None
    }
    named = [
        *(one for one in (positional if is_static else positional[1:]) if one in arguments.args),
        *arguments.kwonlyargs,
    ]
    return ScannedMethod(
        line=node.lineno,
        column=node.col_offset + 1,
        required=max(0, count - len(arguments.defaults)),
        accepted=None if arguments.vararg else count,
        names=tuple(one.arg for one in named),
        required_names=tuple(one.arg for one in named if one.arg not in with_default),
        takes_any_name=arguments.kwarg is not None,
    )


def _imported_names(tree: ast.Module) -> set[str]:
    """Of `import a.b`: a.b; of `from plugins.a import b`: a and a.b; of `from . import a`: a."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" if node.module else alias.name for alias in node.names)
    return {name.removeprefix("plugins.") for name in names if name not in ("", "plugins")}
