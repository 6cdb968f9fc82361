"""The checks of a tool before it may run: name, namespace, syntax, imports, signature, placeholders. Pure.

These checks are a speed bump that gives a model a useful message. The fence is the sandbox.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from eventlog.events import ToolsConfig

from .tool_imports import denied_imports

FaultCategory = Literal["policy", "validation", "import", "schema_mismatch", "dry_run"]
REPAIRABLE: Final[frozenset[FaultCategory]] = frozenset({"validation", "import", "schema_mismatch", "dry_run"})
FQN: Final = re.compile(r"[a-z][a-z0-9_]{0,39}(?:\.[a-z][a-z0-9_]{0,39}){1,3}")
LONGEST_CODE: Final = 50_000
RESERVED: Final = frozenset(
    [
        "web",
        "http",
        "file",
        "shell",
        "agent",
        "memory",
        "arithmetic",
        "numpy",
        "matplot",
        "pandas",
        "doc",
        "sklearn",
        "code",
        "tools",
    ]
)
"""Namespaces that no worker may write into."""

RUNTIME_ARGUMENTS: Final = frozenset({"_secrets", "_workspace_dir", "_output_dir"})
_CALLS: Final = frozenset({"eval", "exec", "compile", "__import__"})
_DUNDERS: Final = frozenset(
    [
        "__import__",
        "__subclasses__",
        "__bases__",
        "__base__",
        "__mro__",
        "__globals__",
        "__builtins__",
        "__loader__",
        "__spec__",
        "__code__",
    ]
)
_TINY_PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"
_TINY_PDF: Final = 500


class ToolSpec(BaseModel):
    """A tool as a worker writes it: a name with a namespace, code with one `handler`, and a schema of its arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    fqn: str
    code: str
    parameters: dict[str, JsonValue]
    description: str = ""


@dataclass(frozen=True, slots=True)
class ToolFault:
    """Why a tool is refused. `status` is that of the original's answers; `hint` says what to write instead."""

    category: FaultCategory
    status: int
    why: str
    hint: str = ""

    @property
    def is_repairable(self) -> bool:
        """True if a model may repair the code; else the refusal is final."""
        return self.category in REPAIRABLE


def read_tool(value: object) -> ToolSpec | None:
    """A tool from a worker's answer; None if it has no name or no code."""
    if not isinstance(value, Mapping):
        return None
    name, code = value.get("fqn") or value.get("name"), value.get("code")
    parameters = value.get("parameters")
    described = value.get("description")
    if not isinstance(name, str) or not isinstance(code, str):
        return None
    shape = dict(parameters) if isinstance(parameters, Mapping) else {}
    return ToolSpec(
        fqn=name[:200],
        code=code[: LONGEST_CODE + 1],
        parameters={str(key): each for key, each in shape.items()},
        description=described[:1_000] if isinstance(described, str) else "",
    )


def tool_hash(spec: ToolSpec) -> str:
    """SHA-256 of name, code without spaces at line ends, and schema whatever the order of its keys."""
    code = "\n".join(line.rstrip() for line in spec.code.splitlines())
    schema = json.dumps(spec.parameters, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256("\0".join((spec.fqn, code, schema)).encode(errors="replace")).hexdigest()


def name_fault(fqn: str, config: ToolsConfig) -> ToolFault | None:
    """DT1 and DT2: whether a name is well formed and its namespace may be written into."""
    if FQN.fullmatch(fqn) is None:
        return ToolFault("policy", 400, f"{fqn[:80]!r} is no tool name; expected `namespace.name` in lower case")
    namespace = fqn.partition(".")[0]
    if namespace in RESERVED:
        return ToolFault("policy", 403, f"the namespace {namespace} is reserved")
    if namespace not in config.namespaces:
        return ToolFault("policy", 403, f"the namespace {namespace} is not allowed; use {', '.join(config.namespaces)}")
    return None


def code_fault(spec: ToolSpec, config: ToolsConfig) -> ToolFault | None:
    """DT4 with NC1 to NC3: syntax, imports, dangerous calls, exactly one handler that returns something."""
    if len(spec.code) > LONGEST_CODE:
        return ToolFault("validation", 400, f"the code is longer than {LONGEST_CODE} characters")
    try:
        tree = ast.parse(spec.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        return ToolFault("validation", 400, f"the code cannot be parsed: {str(problem)[:200]}")
    namespace = spec.fqn.partition(".")[0]
    denied = denied_imports(config.namespace_capabilities.get(namespace, config.capabilities))
    for node in ast.walk(tree):
        fault = _import_fault(node, denied) or _danger_fault(node)
        if fault is not None:
            return fault
    return _handler_fault(tree)


def signature_fault(spec: ToolSpec) -> ToolFault | None:
    """B2: whether the handler's arguments stand in the schema. An argument of the schema may go unused."""
    if spec.parameters.get("type", "object") != "object":
        return ToolFault("schema_mismatch", 400, "the schema is no object; expected properties by name")
    declared = spec.parameters.get("properties", {})
    if not isinstance(declared, Mapping):
        return ToolFault("schema_mismatch", 400, "the schema's properties are no object")
    handler = handlers_in(ast.parse(spec.code))[0]
    extra = sorted(_arguments(handler) - RUNTIME_ARGUMENTS - set(declared))
    if not extra:
        return None
    return ToolFault(
        "schema_mismatch", 400, f"the handler takes {', '.join(extra)}, which the schema lacks", "Declare it there."
    )


def placeholder_fault(spec: ToolSpec) -> ToolFault | None:
    """DT9: whether the tool only pretends: a picture of one pixel, a document without content."""
    code, described = spec.code, spec.description.lower()
    pretends = (
        _TINY_PNG in code
        or ("placeholder" in described and any(word in described for word in ("png", "image", "plot")))
        or "placeholder" in spec.fqn
        or "placeholder pdf" in code.lower()
        or ("%PDF-1.1" in code and len(code) < _TINY_PDF and "placeholder" in code.lower())
    )
    return ToolFault("policy", 403, "the tool makes a placeholder instead of a result") if pretends else None


def static_fault(spec: ToolSpec, config: ToolsConfig) -> ToolFault | None:
    """The first fault before the dry run, in the order DT1, DT2, DT4, B2, DT9."""
    return name_fault(spec.fqn, config) or code_fault(spec, config) or signature_fault(spec) or placeholder_fault(spec)


def handlers_in(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The top-level functions called `handler`."""
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [node for node in found if node.name == "handler"]


def probe_inputs(spec: ToolSpec) -> dict[str, Any]:
    """Arguments for a dry run: the default, else the first of an enumeration, else an empty value of the type."""
    declared = spec.parameters.get("properties", {})
    handler = handlers_in(ast.parse(spec.code))[0]
    wanted = None if handler.args.kwarg is not None else _arguments(handler)
    empty: dict[str, Any] = {"string": "", "number": 0, "integer": 0, "boolean": False, "array": [], "object": {}}
    inputs: dict[str, Any] = {}
    for name, shape in declared.items() if isinstance(declared, Mapping) else ():
        if wanted is not None and name not in wanted:
            continue
        facts: Mapping[str, Any] = shape if isinstance(shape, Mapping) else {}
        choices, kind = facts.get("enum"), facts.get("type")
        if "default" in facts:
            inputs[name] = facts["default"]
        elif isinstance(choices, list) and choices:
            inputs[name] = choices[0]
        else:
            inputs[name] = empty.get(kind) if isinstance(kind, str) else None
    return inputs


def _import_fault(node: ast.AST, denied: Mapping[str, str]) -> ToolFault | None:
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        if node.level:
            return ToolFault("import", 403, "a relative import", "A tool is one file. Write what it needs into it.")
        names = [node.module or ""]
    for name in names:
        root = name.partition(".")[0]
        if root in denied:
            return ToolFault("import", 403, f"the module {root} may not be imported", f"Alternative: {denied[root]}")
    return None


def _danger_fault(node: ast.AST) -> ToolFault | None:
    found = None
    if isinstance(node, ast.Call):
        called = node.func
        name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        is_method = isinstance(called, ast.Attribute) and not isinstance(called.value, ast.Name)
        if name in _CALLS and not (name == "compile" and isinstance(called, ast.Attribute) and not is_method):
            found = name
        if name == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            asked = node.args[1].value
            found = str(asked) if asked in _CALLS | _DUNDERS else found
    elif isinstance(node, ast.Attribute) and node.attr in _DUNDERS:
        found = node.attr
    elif isinstance(node, ast.Name) and node.id in {"__builtins__", "__loader__", "__spec__"}:
        found = node.id
    return (
        None if found is None else ToolFault("import", 403, f"{found} may not be used", "Write it out in plain code.")
    )


def _handler_fault(tree: ast.Module) -> ToolFault | None:
    found = handlers_in(tree)
    if len(found) != 1:
        return ToolFault("validation", 400, f"{len(found)} functions called `handler`; expected exactly one")
    arguments = found[0].args
    if (arguments.posonlyargs or arguments.args or arguments.vararg) and not (arguments.kwonlyargs or arguments.kwarg):
        why = "the handler takes positional arguments; expected `def handler(*, name)` or `def handler(**kwargs)`"
        return ToolFault("validation", 400, why)
    if not any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(found[0])):
        return ToolFault("validation", 400, "the handler returns nothing; expected `return {...}`")
    return None


def _arguments(handler: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that a handler takes: its keyword arguments, and what it looks up in `**kwargs`."""
    found = {each.arg for each in (*handler.args.args, *handler.args.kwonlyargs)}
    gathered = handler.args.kwarg
    for node in ast.walk(handler) if gathered is not None else ():
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and _is_named(node.value, gathered):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            is_lookup = node.func.attr in {"get", "pop"} and _is_named(node.func.value, gathered)
            key = node.args[0] if is_lookup else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.add(key.value)
    return found


def _is_named(node: ast.expr, argument: ast.arg | None) -> bool:
    return isinstance(node, ast.Name) and argument is not None and node.id == argument.arg
