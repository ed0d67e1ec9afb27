"""Resolves the names of a Lua file for the lint, and checks them within the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from luaparser import ast
from luaparser import astnodes as lua

GLOBALS: dict[str, str] = {
    **dict.fromkeys(
        ("assert", "collectgarbage", "error", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget", "rawset",
         "require", "select", "setmetatable", "tonumber", "tostring", "type", "unpack", "xpcall"), ""),
    "bit": "arshift band bnot bor bswap bxor lshift rol ror rshift tobit tohex",
    "cjson": "decode encode null",
    "cmsgpack": "pack unpack unpack_limit unpack_one",
    "math": "abs ceil exp floor fmod frexp huge ldexp log log10 max min modf pi pow random sqrt",
    "os": "clock",
    "redis": "acl_check_cmd call error_reply log LOG_DEBUG LOG_NOTICE LOG_VERBOSE LOG_WARNING pcall setresp sha1hex "
             "status_reply",
    "string": "byte char find format gmatch gsub len lower match rep reverse sub upper",
    "struct": "pack size unpack",
    "table": "concat insert maxn remove sort",
}  # fmt: skip
"""Names that the server offers to functions, and the fields of its tables; without those that change later calls."""
MAY_KEEP = ("remembered",)
"""Modules that may keep state between calls."""
_CHANGING = (("table", "insert"), ("table", "remove"), ("table", "sort"), ("rawset",), ("setmetatable",))
"""Functions of the server that change their first argument."""
_COMMANDS = (("redis", "call"), ("redis", "pcall"))
REQUIRE_FORM = "a module is named at the top of the file, as: local name = require 'name'"
Kind = Literal["module", "function", "local", "parameter"]


@dataclass(eq=False, slots=True)
class Var:
    """A local name with its declaration."""

    name: str
    line: int
    kind: Kind
    top: bool
    """Declared at the level of the file."""
    value: Any = None
    """The node of its initial value."""
    used: bool = False
    exempt: bool = False
    assigned: bool = False
    changed: bool = False
    """The table that it is gets written to."""
    function: Any = None
    """The node of the innermost function that it is declared in."""


@dataclass(eq=False)
class LuaFile:
    """A parsed file. Nodes have no useful equality, so ``id`` identifies them."""

    path: Path
    tree: Any
    problems: list[tuple[int, str]] = field(default_factory=list)
    names: dict[int, Var] = field(default_factory=dict)
    """The local that a ``Name`` node stands for."""
    lines: dict[int, int] = field(default_factory=dict)
    """Lines of calls, by node."""
    parameters: dict[int, list[Var]] = field(default_factory=dict)
    """The parameters of each function node; ``...`` is one of them."""
    requires: dict[str, int] = field(default_factory=dict)
    exports: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """Field of the file's own table -> line and value node."""
    returned: Any = None
    used_fields: list[tuple[str, str, int]] = field(default_factory=list)
    """Module, field of it, line."""
    families: list[tuple[str, int]] = field(default_factory=list)
    run_read: dict[str, int] = field(default_factory=dict)
    run_written: dict[str, int] = field(default_factory=dict)
    """Fields of `run` that are assigned, or that the module `run` makes it with: where."""
    calls: list[tuple[Any, list[Var | None], bool, int]] = field(default_factory=list)
    """Calls: the function's node, what tables the arguments are, whether at the level of the file, line."""
    keeping: set[int] = field(default_factory=set)
    """Functions whose locals are written to by functions in them, which may keep them."""

    @property
    def own(self) -> str | None:
        """The name of the table that the file returns."""
        return self.returned.id if isinstance(self.returned, lua.Name) else None


def children(node: Any) -> list[Any]:
    """The child nodes of a node, and lists of them."""
    return [value for name, value in vars(node).items() if not name.startswith("_") and name != "comments"]


def root(node: Any) -> Any:
    """Of ``a.b[c].d`` the node ``a``."""
    while isinstance(node, lua.Index):
        node = node.value
    return node


def dotted(node: Any) -> tuple[str, ...]:
    """``a.b.c`` as ("a", "b", "c"); () for any other expression."""
    if isinstance(node, lua.Name):
        return (node.id,)
    if isinstance(node, lua.Index) and node.notation is lua.IndexNotation.DOT:
        start = dotted(node.value)
        return (*start, node.idx.id) if start else ()
    return ()


class NotLua(Exception):
    """A file cannot be parsed.

    Attributes:
        line: the line of the error.
    """

    def __init__(self, text: str, line: int) -> None:
        super().__init__(f"not Lua: {text}")
        self.line = line


def read(path: Path) -> LuaFile:
    """Parses a file. Raises NotLua."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except ast.SyntaxException as error:
        # The library does not expose the position.
        causes = getattr(error.__context__, "args", ())
        token = getattr(causes[0], "offendingToken", None) if causes else None
        if token is None:
            raise NotLua(str(error), 1) from None
        raise NotLua(f"unexpected '{token.text}'", token.line) from None
    file = LuaFile(path, tree)
    statements = tree.body.body
    if statements and isinstance(statements[-1], lua.Return) and len(statements[-1].values) == 1:
        file.returned = statements[-1].values[0]
    _Reader(file).file(statements)
    return file


class _Reader:
    """Walks the tree in source order, with the stack of open scopes."""

    def __init__(self, file: LuaFile) -> None:
        self._file = file
        self._scopes: list[dict[str, Var]] = [{}]
        self._functions: list[Any] = []  # that are open
        self._line = 1
        self._head = True  # nothing but modules so far

    def file(self, statements: list[Any]) -> None:
        self._block(statements)
        self._close(self._scopes.pop())
        self._file.problems.sort()

    def _problem(self, text: str, line: int | None = None) -> None:
        self._file.problems.append((line or self._line, text))

    # --- names ---------------------------------------------------------------

    def _declare(self, node: Any, kind: Kind, value: Any = None) -> Var:
        name = "..." if isinstance(node, lua.Varargs) else node.id
        var = Var(name, self._line, kind, len(self._scopes) == 1, value, exempt=name in ("_", "..."))
        var.function = self._functions[-1] if self._functions else None
        self._file.names[id(node)] = var
        if not var.exempt:
            outer = self._find(name)
            if name in self._scopes[-1]:
                self._problem(f"'{name}' is declared twice in one block")
            elif outer is not None:
                self._problem(f"'{name}' shadows the {outer.kind} of line {outer.line}")
            elif name in GLOBALS:
                self._problem(f"'{name}' shadows what the server offers under that name")
        self._scopes[-1][name] = var
        return var

    def _find(self, name: str) -> Var | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _close(self, scope: dict[str, Var]) -> None:
        for var in scope.values():
            if not (var.used or var.exempt or var.name == self._file.own):
                self._problem(f"the {var.kind} '{var.name}' is not used", var.line)

    def _name(self, node: Any) -> None:
        var = self._find(node.id)
        if var is not None:
            var.used = True
            self._file.names[id(node)] = var
        elif node.id not in GLOBALS:
            self._problem(f"undefined name '{node.id}'")
        elif GLOBALS[node.id]:
            self._problem(f"of '{node.id}' only fields are used: {node.id}.<field>")

    # --- statements ----------------------------------------------------------

    def _block(self, statements: list[Any]) -> None:
        for statement in statements:
            self._visit(statement)

    def _scope(self, *parts: Any, declared: list[tuple[Any, Kind]] | None = None) -> None:
        self._scopes.append({})
        for node, kind in declared or ():
            self._declare(node, kind)
        for part in parts:
            self._visit(part)
        self._close(self._scopes.pop())

    def _visit(self, node: Any) -> None:
        if isinstance(node, list):
            for one in node:
                self._visit(one)
            return
        if not isinstance(node, lua.Node):
            return
        outer_line, self._line = self._line, node.line or self._line
        self._head = self._head and isinstance(node, lua.Chunk | lua.Block | lua.LocalAssign)
        handler = getattr(self, f"_visit_{type(node).__name__.lower()}", None)
        if handler is not None:
            handler(node)
        else:
            self._visit(children(node))
        self._line = outer_line

    def _visit_block(self, node: Any) -> None:
        self._scope(node.body)

    def _visit_localassign(self, node: Any) -> None:
        value = node.values[0] if len(node.targets) == 1 and node.values else None
        module = self._required(value, node.targets[0].id)
        self._head = self._head and module is not None
        if module is None:
            self._visit(node.values)
        for target in node.targets:
            self._declare(target, "module" if module else "local", value)

    def _required(self, value: Any, name: str) -> str | None:
        """The module that a declaration names, if it does."""
        if not (isinstance(value, lua.Call) and dotted(value.func) == ("require",)):
            return None
        module = value.args[0].raw if value.args and isinstance(value.args[0], lua.String) else ""
        if module != name or not self._head:
            self._problem(REQUIRE_FORM)
            return None
        self._file.requires[module] = self._line
        return module

    def _visit_localfunction(self, node: Any) -> None:
        self._declare(node.name, "function", node)
        self._function(node)

    def _visit_function(self, node: Any) -> None:
        self._assign(node.name, node)
        self._function(node)

    def _visit_anonymousfunction(self, node: Any) -> None:
        self._function(node)

    def _function(self, node: Any) -> None:
        self._functions.append(node)
        self._scopes.append({})
        self._file.parameters[id(node)] = [self._declare(argument, "parameter") for argument in node.args]
        if node is self._file.returned and self._file.parameters[id(node)]:
            self._file.parameters[id(node)][0].exempt |= node.args[0].id == "run"
        # A local of the body with a parameter's name shadows it, like one of a block.
        self._scope(node.body.body)
        self._close(self._scopes.pop())
        self._functions.pop()

    def _visit_forin(self, node: Any) -> None:
        self._visit(node.iter)
        self._scope(node.body.body, declared=[(target, "local") for target in node.targets])

    def _visit_fornum(self, node: Any) -> None:
        self._visit([node.start, node.stop, node.step])
        self._scope(node.body.body, declared=[(node.target, "local")])

    def _visit_repeat(self, node: Any) -> None:
        self._scope(node.body.body, node.test)

    def _visit_assign(self, node: Any) -> None:
        self._visit(node.values)
        for n, target in enumerate(node.targets):
            self._assign(target, node.values[n] if n < len(node.values) else None)

    def _assign(self, target: Any, value: Any) -> None:
        if isinstance(target, lua.Name):
            var = self._find(target.id)
            if var is None:
                self._problem(f"writes the global '{target.id}'")
                return
            self._file.names[id(target)] = var
            again = var.value is not None or var.assigned or self._functions
            if var.top and again and self._file.path.stem not in MAY_KEEP:
                self._problem(
                    f"'{var.name}' of line {var.line}, at the module's level, is assigned again: there are no variables"
                )
            var.assigned = True
            self._keeps(var)
            if var.top and var.value is None:
                var.value = value
            return
        self._changed(target)
        names = dotted(target)
        if len(names) > 2 and names[:2] == ("run", "keys"):
            self._problem("writes to run.keys, which later calls get too")
        if len(names) == 2 and names[0] == self._file.own and not self._functions:
            self._file.exports[names[1]] = (self._line, value)
            self._file.names[id(root(target))] = self._scopes[0][names[0]]
        elif len(names) == 2 and names[0] == "run":
            self._file.run_written.setdefault(names[1], self._line)
            self._visit(target.value)
        else:
            self._visit(target)

    def _changed(self, target: Any) -> None:
        """A table is written to."""
        name = root(target)
        var = self._table(target)
        if var is not None:
            var.changed = True
            self._keeps(var)
        if isinstance(name, lua.Name) and self._find(name.id) is None:
            self._problem(f"writes to the global '{name.id}'")
        elif var is not None and var.kind == "module":
            self._problem(f"writes to the module '{var.name}'")
        elif var is not None and var.top and self._functions and self._file.path.stem not in MAY_KEEP:
            self._problem(f"changes '{var.name}', which is at the module's level: the state of a call belongs in `run`")

    def _table(self, node: Any) -> Var | None:
        """The name of the table that an expression is, or is in; by the names that were declared with it."""
        var = None
        while isinstance(name := root(node), lua.Name):
            found = self._find(name.id) if var is None else self._file.names.get(id(name))
            if found is None or found is var:
                break
            var, node = found, None if found.assigned else found.value
        return var

    def _keeps(self, var: Var) -> None:
        """A local is written to, maybe by a function within the one that it is declared in."""
        if var.function is not None and var.function is not self._functions[-1]:
            self._file.keeping.add(id(var.function))

    # --- expressions ---------------------------------------------------------

    def _visit_name(self, node: Any) -> None:
        self._name(node)

    def _visit_index(self, node: Any) -> None:
        names = dotted(node)
        if len(names) == 3 and names[:2] == ("run", "keys"):
            self._file.families.append((names[2], self._line))
            self._visit(node.value.value)
            return
        if len(names) == 2:
            self._field(*names)
        if names in _COMMANDS:
            self._problem(f"{'.'.join(names)} is only called")
        if len(names) != 2 or self._find(names[0]) is not None or names[0] not in GLOBALS:
            self._visit(node.value)
        if node.notation is lua.IndexNotation.SQUARE:
            self._visit(node.idx)
            if dotted(node.value) == ("run",) and dotted(node.idx) != (self._file.own,):
                self._problem("run[..] is what a module keeps during a call: only its own, run[<the module>]")

    def _field(self, name: str, key: str) -> None:
        var = self._find(name)
        if (name, key) == ("run", "keys"):
            self._problem("run.keys is for single families only: run.keys.<family>")
        elif name == "run":
            self._file.run_read.setdefault(key, self._line)
        elif var is not None and (var.kind == "module" or (var.top and name == self._file.own)):
            self._file.used_fields.append((name, key, self._line))
        elif var is None and name in GLOBALS and key not in GLOBALS[name].split():
            self._problem(f"the server offers no '{name}.{key}'")

    def _visit_field(self, node: Any) -> None:
        if node.between_brackets:
            self._visit(node.key)
        elif self._file.path.stem == "run" and isinstance(node.key, lua.Name):
            self._file.run_written.setdefault(node.key.id, self._line)
        self._visit(node.value)

    def _visit_call(self, node: Any) -> None:
        self._file.lines[id(node)] = self._line
        names = dotted(node.func)
        if names == ("require",):
            self._problem(REQUIRE_FORM)
        if names in _CHANGING and node.args:
            self._changed(node.args[0])
        self._visit([node.func, node.args] if names not in _COMMANDS else node.args)
        tables = [self._table(argument) for argument in node.args]
        self._file.calls.append((node.func, tables, not self._functions, self._line))

    def _visit_invoke(self, node: Any) -> None:
        self._visit([node.source, node.args])

    def _visit_goto(self, node: Any) -> None:
        """A label is not a variable."""

    def _visit_label(self, node: Any) -> None:
        """As ``_visit_goto``."""
