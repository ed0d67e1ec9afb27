"""Which key families the operations of a library may write, and which files write them, found without running them.

A function may write a family if the family's keys may reach a writing command in it, or in any function that it calls
or names. Values are traced through variables, tables, fields of ``run``, results and arguments, in any order of
assignment, so the result is conservative. Values that go through the store are not traced, nor are arguments of
functions that are arguments. A concatenated key counts by its prefix.
Besides families there are two words: ``rq`` stands for keys of RQ (``run.env.rq``), and ``messages`` for PUBLISH.

A write is that of the file in which the key meets the command: of the caller, if a function gets the key as argument.
Of a hash it is a write of single fields if they are literals there. Fields that are given to the functions of
``SETTERS`` count, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from luaparser import astnodes as lua

from tests.lint.lua_names import LuaFile, Var, children, dotted, root

ONE_KEY = frozenset(
    ("APPEND", "DECR", "DECRBY", "EXPIRE", "EXPIREAT", "GETDEL", "GETEX", "GETSET", "HDEL", "HINCRBY",
     "HINCRBYFLOAT", "HSET", "HSETNX", "INCR", "INCRBY", "INCRBYFLOAT", "LINSERT", "LPOP", "LPUSH", "LREM", "LSET",
     "LTRIM", "PERSIST", "PEXPIRE", "PEXPIREAT", "PSETEX", "RPOP", "RPUSH", "SADD", "SET", "SETBIT", "SETEX", "SETNX",
     "SETRANGE", "SPOP", "SREM", "XACK", "XADD", "XAUTOCLAIM", "XCLAIM", "XDEL", "XTRIM", "ZADD", "ZINCRBY", "ZPOPMAX",
     "ZPOPMIN", "ZRANGESTORE", "ZREM", "ZREMRANGEBYLEX", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE")
)  # fmt: skip
TWO_KEYS = frozenset(("COPY", "LMOVE", "RENAME", "SMOVE"))
MANY_KEYS = frozenset(("DEL", "MSET", "UNLINK"))
WRITING = ONE_KEY | TWO_KEYS | MANY_KEYS | {"PUBLISH"}
"""Writing commands, by which of their arguments are written keys. The server treats PUBLISH as a write."""
READING = frozenset(
    ("DBSIZE", "EXISTS", "GET", "GETRANGE", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HRANDFIELD",
     "HSCAN", "HSTRLEN", "HVALS", "INFO", "LINDEX", "LLEN", "LPOS", "LRANGE", "MGET", "PTTL", "SCARD", "SISMEMBER",
     "SMEMBERS", "SMISMEMBER", "STRLEN", "TIME", "TTL", "TYPE", "XINFO", "XLEN", "XRANGE", "XREVRANGE", "ZCARD",
     "ZCOUNT", "ZLEXCOUNT", "ZMSCORE", "ZRANDMEMBER", "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZRANK", "ZREVRANGE",
     "ZREVRANGEBYLEX", "ZREVRANGEBYSCORE", "ZREVRANK", "ZSCAN", "ZSCORE")
)  # fmt: skip
SETTERS = {("items", "set"): ("item", 1, 9), ("items", "save_record"): ("item", 2, 2)}
"""Functions that write fields of a hash: its family, which argument is the first field, and how far the next is."""
_FIELDS = {"HSET": (2, 2), "HSETNX": (2, 9), "HINCRBY": (2, 9), "HINCRBYFLOAT": (2, 9), "HDEL": (2, 1)}
"""The same of commands."""
_SAME_TEXT = ("ipairs", "next", "pairs", "select", "string.format", "string.gsub", "string.sub", "table.concat",
              "table.remove", "tostring", "unpack")  # fmt: skip
"""Functions of the server whose results derive from their arguments."""

Tokens = frozenset[str]
"""The possible values of an expression: ``f:<family>``, ``c:<COMMAND>``, or ``p:<n>`` for the n-th parameter."""
Site = tuple[LuaFile, int]
"""A call of a command: the file, and the id of the node."""
NONE: Tokens = frozenset()


class Write(NamedTuple):
    """A write of a file."""

    file: LuaFile
    line: int
    family: str
    field: str
    """'' for a key as a whole, or unknown fields of it."""
    given: bool = False
    """Whether it is given to a function of ``SETTERS``."""


class Found(NamedTuple):
    """The writes of an operation."""

    families: set[str]
    commands: list[tuple[Site, str]]
    """Commands whose kind is unknown; '' for dynamic ones."""
    writes: set[Site]
    """Calls that write."""
    named: set[Site]
    """Those of them with a known family."""


class _Unit:
    """A top-level function (with its nested functions), and the facts known about it so far."""

    def __init__(self, file: LuaFile, node: Any) -> None:
        self.file, self.node = file, node
        self.parameters = file.parameters.get(id(node), [])
        self.values: dict[object, Tokens] = {}  # of variables, and results of functions by node
        self.changed: dict[int, Tokens] = {}  # what is put into parameters
        self.writes: set[tuple[Site, str]] = set()  # '?' for each; besides, tokens of the keys
        self.calls: set[tuple[Site, str, tuple[Tokens, ...]]] = set()  # commands that are parameters, with arguments
        self.kept: set[tuple[str, str]] = set()  # fields of `run`, and tokens of what is put there
        self.own: set[Write] = set()
        for n, parameter in enumerate(self.parameters):
            self.values[parameter] = frozenset((f"p:{n}",)) if parameter.name != "run" else NONE

    def size(self) -> tuple[int, ...]:
        values = sum(map(len, self.values.values()))
        return values, sum(map(len, self.changed.values())), len(self.writes), len(self.calls), len(self.kept)


class Writes:
    """The operations of one library.

    Args:
        module: the file of a module by the name that the library's files give it; None for one that has none.
    """

    def __init__(self, module: Callable[[str], LuaFile | None]) -> None:
        self._module = module
        self._units: dict[int, _Unit] = {}
        self.kept: dict[str, Tokens] = {}
        """The possible values of the fields of `run`."""

    def of(self, operations: Iterable[LuaFile]) -> list[Found]:
        """The possible writes of each of them."""
        units = [self._unit(file, file.returned) for file in operations if file.returned is not None]
        while True:
            before = len(self._units), [unit.size() for unit in self._units.values()]
            for unit in list(self._units.values()):
                _Study(self, unit).run()
                for field, token in unit.kept:
                    if not token.startswith("p:"):
                        self.kept[field] = self.kept.get(field, NONE) | {token}
            if before == (len(self._units), [unit.size() for unit in self._units.values()]):
                return [_found(unit) for unit in units]

    @property
    def own(self) -> set[Write]:
        """The writes of each file that was looked at."""
        return set[Write]().union(*(unit.own for unit in self._units.values()))

    def target(self, node: Any, file: LuaFile) -> _Unit | None:
        """The top-level function that an expression names, if any."""
        if isinstance(node, lua.Function | lua.LocalFunction | lua.AnonymousFunction):
            return self._unit(file, node)
        if isinstance(node, lua.Name):
            return self._of_var(file.names.get(id(node)), file)
        names = dotted(node)
        if len(names) == 2:
            var = file.names.get(id(root(node)))
            if var is not None and var.kind == "module":
                other = self._module(var.name)
                return self._exported(other, names[1]) if other else None
            if var is not None and var.top:
                return self._exported(file, names[1]) if names[0] == file.own else None
        return None

    def _of_var(self, var: Var | None, file: LuaFile) -> _Unit | None:
        if var is None or not var.top or var.name == file.own:
            return None
        if var.kind == "module":
            other = self._module(var.name)
            return self.target(other.returned, other) if other and other.returned is not None else None
        if isinstance(var.value, lua.Table | lua.Call):
            return self._unit(file, var.value)
        return self.target(var.value, file)

    def _exported(self, file: LuaFile, name: str) -> _Unit | None:
        return self.target(file.exports[name][1], file) if name in file.exports else None

    def _unit(self, file: LuaFile, node: Any) -> _Unit:
        if id(node) not in self._units:
            self._units[id(node)] = _Unit(file, node)
        return self._units[id(node)]


def _found(unit: _Unit) -> Found:
    families = {token[2:] for _, token in unit.writes if token.startswith("f:")}
    commands = [(site, token[2:]) for site, token in unit.writes if token.startswith("!:")]
    writes = {site for site, token in unit.writes if token == "?"}
    return Found(families, commands, writes, {site for site, token in unit.writes if token.startswith("f:")})


class _Study:
    """One pass over a function, with the facts known about its callees."""

    def __init__(self, all_units: Writes, unit: _Unit) -> None:
        self._all, self._unit, self._file = all_units, unit, unit.file
        self._results = id(unit.node)

    def run(self) -> None:
        node = self._unit.node
        self._walk(node.body) if id(node) in self._file.parameters else self._value(node)

    def _add(self, key: object, tokens: Tokens) -> None:
        self._unit.values[key] = self._unit.values.get(key, NONE) | tokens

    # --- statements ----------------------------------------------------------

    def _walk(self, node: Any) -> None:
        if isinstance(node, list):
            for one in node:
                self._walk(one)
        elif isinstance(node, lua.Assign):  # or a local one
            self._assign(node)
        elif isinstance(node, lua.Forin):
            tokens = self._union(node.iter)
            numbered = isinstance(node.iter[0], lua.Call) and dotted(node.iter[0].func) == ("ipairs",)
            for target in node.targets[numbered:]:
                self._add(self._file.names[id(target)], tokens)
            self._walk(node.body)
        elif isinstance(node, lua.Return):
            self._add(self._results, self._union(node.values))
        elif isinstance(node, lua.LocalFunction | lua.Function):
            self._function(node)
        elif _is_expression(node):
            self._value(node)
        elif isinstance(node, lua.Node):
            self._walk(children(node))

    def _assign(self, node: Any) -> None:
        values = [self._value(value) for value in node.values]
        for n, target in enumerate(node.targets):
            if isinstance(target, lua.Name):
                self._add(self._file.names.get(id(target)), _nth(values, node.values, n))
            else:
                index = self._value(target.idx) if target.notation is lua.IndexNotation.SQUARE else NONE
                self._put(target, index | _nth(values, node.values, n))

    def _function(self, node: Any) -> Tokens:
        """A nested function; it counts as called."""
        outer, self._results = self._results, id(node)
        self._walk(node.body)
        self._results = outer
        return self._unit.values.get(id(node), NONE)

    def _put(self, node: Any, tokens: Tokens) -> None:
        """Adds tokens to the table of an expression."""
        if isinstance(node, lua.Call):
            for argument in node.args:
                self._put(argument, tokens)
            return
        name = root(node)
        var = self._file.names.get(id(name)) if isinstance(name, lua.Name) else None
        if var is None or var.top:
            return
        if var.name == "run":
            self._unit.kept |= {(_field(node), token) for token in tokens}
            return
        self._add(var, tokens)
        if var in self._unit.parameters:
            n = self._unit.parameters.index(var)
            self._unit.changed[n] = self._unit.changed.get(n, NONE) | (tokens - {f"p:{n}"})

    # --- expressions ---------------------------------------------------------

    def _union(self, nodes: Iterable[Any]) -> Tokens:
        return NONE.union(*map(self._value, nodes))

    def _value(self, node: Any) -> Tokens:
        if isinstance(node, lua.String):
            return frozenset((f"c:{node.raw}",)) if node.raw.isalpha() and node.raw.isupper() else NONE
        if isinstance(node, lua.Call):
            return self._call(node)
        if isinstance(node, lua.Name | lua.Index):
            return self._named(node)
        if isinstance(node, lua.Dots):
            last = self._unit.parameters[-1:]
            return self._unit.values[last[0]] if last and last[0].name == "..." else NONE
        if isinstance(node, lua.Concat):
            return self._joined(node)
        if isinstance(node, lua.AndLoOp):
            self._value(node.left)
            return self._value(node.right)
        if isinstance(node, lua.OrLoOp):
            return self._value(node.left) | self._value(node.right)
        if isinstance(node, lua.AnonymousFunction):
            return self._function(node)
        if isinstance(node, lua.Table):
            named = [entry.key for entry in node.fields if entry.between_brackets]
            return self._union([*named, *(entry.value for entry in node.fields)])
        if isinstance(node, lua.Node):
            for child in children(node):
                self._value(child)
        return NONE

    def _named(self, node: Any) -> Tokens:
        names = dotted(node)
        if len(names) == 3 and names[:2] == ("run", "keys"):
            return frozenset((f"f:{names[2]}",)) if names[2] not in ("prefix", "project") else NONE
        if names == ("run", "env", "rq"):
            return frozenset(("f:rq",))
        unit = self._all.target(node, self._file)
        if unit is not None:
            return self._use(unit, [], [])
        if isinstance(node, lua.Index) and dotted(root(node)) == ("run",):
            return self._all.kept.get(_field(node), NONE)
        if isinstance(node, lua.Index):
            self._value(node.idx) if node.notation is lua.IndexNotation.SQUARE else None
            return self._value(node.value)
        return self._unit.values.get(self._file.names.get(id(node)), NONE)

    def _joined(self, node: Any) -> Tokens:
        """A concatenation has the value of its prefix; a parameter may be irrelevant."""
        left, right = self._value(node.left), self._value(node.right)
        begun = any(token.startswith(("f:", "p:")) for token in left)
        return frozenset(token for token in (left if begun else left | right) if not token.startswith("c:"))

    def _call(self, node: Any) -> Tokens:
        names = dotted(node.func)
        values = [self._value(argument) for argument in node.args]
        if names in (("redis", "call"), ("redis", "pcall")):
            site = self._file, id(node)
            arguments = tuple(_nth(values, node.args, n) for n in range(1, max(4, len(values))))
            self._command(node, site, values[0], arguments)
            return NONE
        if names in SETTERS:
            family, first, step = SETTERS[names]
            fields = [one.raw for one in node.args[first::step] if isinstance(one, lua.String)]
            self._unit.own |= {Write(self._file, self._file.lines[id(node)], family, one, given=True) for one in fields}
        if names == ("table", "insert"):
            self._put(node.args[0], values[-1])
            return NONE
        unit = self._all.target(node.func, self._file)
        if unit is not None:
            return self._use(unit, node.args, values, node)
        if names and id(root(node.func)) not in self._file.names:
            return NONE.union(*values) if ".".join(names) in _SAME_TEXT else NONE
        var = self._file.names.get(id(node.func))
        for n, parameter in enumerate(self._file.parameters.get(id(var.value), ()) if var else ()):
            self._add(parameter, _nth(values, node.args, n))
        called = self._unit.values.get(id(var.value), NONE) if var else NONE
        return called | self._value(node.func)

    def _use(self, unit: _Unit, arguments: list[Any], values: list[Tokens], node: Any = None) -> Tokens:
        """A top-level function is called by a node, or only named: then its arguments are unknown."""

        def known(tokens: Iterable[str]) -> Tokens:
            found: set[str] = set()
            for token in tokens:
                n = int(token[2:]) if token.startswith("p:") else None
                if n is None:
                    found.add(token)
                elif unit.parameters[n].name == "...":
                    found.update(*values[n:])
                else:
                    found |= _nth(values, arguments, n)
            return frozenset(found)

        for site, one in list(unit.writes):
            tokens = known((one,))
            self._unit.writes |= {(site, token) for token in tokens}
            if one.startswith("p:"):
                self._own(node, tokens)
        self._unit.kept |= {(field, token) for field, one in list(unit.kept) for token in known((one,))}
        for site, command, args in list(unit.calls):
            if commands := known((command,)):
                self._command(node, site, commands, tuple(map(known, args)))
        for n, tokens in unit.changed.items():
            if n < len(arguments):
                self._put(arguments[n], known(tokens))
        return known(unit.values.get(id(unit.node), NONE))

    def _own(self, node: Any, tokens: Tokens, fields: Sequence[Any] = ()) -> None:
        """A write by a call, with the arguments that are fields, if it has such."""
        names = [one.raw for one in fields if isinstance(one, lua.String)]
        for token in tokens:
            if token.startswith("f:"):
                line = self._file.lines[id(node)]
                known = names if names and len(names) == len(fields) else [""]
                self._unit.own |= {Write(self._file, line, token[2:], name) for name in known}

    def _command(self, node: Any, site: Site, commands: Tokens, arguments: tuple[Tokens, ...]) -> None:
        """A command of the server with its arguments, called by a node."""
        for token in commands:
            name = token[2:]
            if token.startswith("p:"):
                self._unit.calls.add((site, token, arguments))
            elif token.startswith("c:") and name not in READING:
                written = _written(name, arguments)
                self._unit.writes |= {(site, key) for key in written if not key.startswith("c:")}
                first, step = _FIELDS.get(name, (0, 1))
                self._own(node, written, node.args[first::step] if first and site[1] == id(node) else ())
                self._unit.writes.add((site, "?"))
                if name not in WRITING:
                    self._unit.writes.add((site, f"!:{name}"))
        if not commands:
            self._unit.writes.add((site, "!:"))


def _field(node: Any) -> str:
    """Of ``run.a.b[c]`` the ``a``; '' of ``run``."""
    name = None
    while isinstance(node, lua.Index):
        node, name = node.value, node.idx
    return name.id if isinstance(name, lua.Name) else ""


def _is_expression(node: Any) -> bool:
    """Calls are statements to luaparser, and statements expressions."""
    statement = isinstance(node, lua.Statement) and not isinstance(node, lua.Call | lua.Invoke)
    return isinstance(node, lua.Expression) and not statement


def _written(command: str, arguments: tuple[Tokens, ...]) -> Tokens:
    """Tokens of the keys that a command writes."""
    if command == "PUBLISH":
        return frozenset(("f:messages",))
    count = 1 if command in ONE_KEY else 2 if command in TWO_KEYS else len(arguments)
    return NONE.union(*arguments[:count])


def _nth(values: Sequence[Tokens], nodes: Sequence[Any], n: int) -> Tokens:
    """The n-th of a list of values, whose last may expand to several."""
    if n < len(values):
        return values[n]
    return values[-1] if values and isinstance(nodes[-1], lua.Call | lua.Dots) else NONE
