"""Builds the function library of a package (``FUNCTION LOAD``) from its Lua files.

Each operation becomes a function of the server, and each module that one of them uses is in the library once. A call
only makes its ``run``, the table with the state of the call (module ``run``). The names of the library and of its
functions end in a digest of its text, because function names are server-wide: so each release calls its own.

While a project is being copied (``fences/known.py``), the server has another variant of each library: the same
functions, but they look for the project's fence first. It is made from the text of the usual one, of any release, by
defining its ``guard``, which is asked for while functions are registered and costs calls nothing. It has a library name
of its own. The server does not let two libraries have the same functions, so neither variant can be loaded over the
other by mistake: who wants to replace one deletes it by its name first.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from coordinator.store import keys, layout, record_layout
from coordinator.store.errors import ScriptError
from coordinator.store.libraries import reach
from coordinator.store.libraries import source as lua_source
from coordinator.store.libraries.source import LOCALS, REQUEST, Files, Header, Line, Source

_DIGEST = "@digest@"  # placeholder for the digest until it is known
_REPLACEABLE = ("run", "change")  # modules of which a package may have its own instead of the store's
_READS = "read"  # the module with the protocol of reads
_GLOBALS = "redis,cmsgpack,struct,string,math,table,ipairs,pairs,next,tonumber,type,unpack"
# Local from the first call on (before, they are not there): a call reads a hundred, each by a search of three tables.
# Names are short where each function repeats them: m has the modules, g makes the run of a call, r registers a
# function, with the flags n, f or w.
_BEGIN = """\
#!lua name={prefix}{digest}
local guard,closed
LAYOUT
local m={{}} local n,f,w={{'no-writes'}},{{'allow-oom'}},{{}}
local function r(name,flags,callback)
callback=guard and guard(callback) or callback
redis.register_function{{function_name='{prefix}'..name..'_{digest}',flags=flags,callback=callback}}
end
local function globals() return GLOBALS end
local LOCALS,GLOBALS local g
g=function(s,p) GLOBALS=globals() LOCALS=CALLED g=m.run return g(s,p) end
"""
_FILLED = {
    "GLOBALS": _GLOBALS,
    "LOCALS": ",".join(LOCALS.values()),
    "CALLED": ",".join(LOCALS),
    "LAYOUT": layout.MARK,
}
_BEGIN = functools.reduce(lambda text, name: text.replace(name, _FILLED[name]), _FILLED, _BEGIN)
_UNGUARDED = "local guard,closed\n"
_GUARDED = (
    "local function guard(open) return function(K,A)"
    f" local found=redis.call('GET',K[1]..'{keys.fence.suffix}')"
    f" if found and string.sub(found,1,{keys.FENCE_ID})~=A[#A]"
    f" then return {{err='FENCED '..string.sub(found,{keys.FENCE_ID + 2})}} end"
    " return open(K,A) end end"
    f" local function closed(P) return redis.call('EXISTS',P..'{keys.fence.suffix}')==1 end\n"
)
"""The second line of a library, which stays one line, so that errors name the same lines: the variant that looks for
fences puts a guard before each function, and knows which partitions are closed by one."""
_FENCES = "m.fences={closed=closed or function() end}"
"""The module ``fences``, for functions that come to further projects: ``closed(prefix)``, whether one may not be
touched."""
FENCED_PREFIX = "fleet_fenced_"
"""Begins the names of libraries that look for fences; their generation follows."""
Constants = Mapping[str, int | str | Sequence[str]]
"""What a module has that Python declares, by name."""
CONSTANTS: Mapping[str, Constants] = {"record_layout": record_layout.for_lua()}
"""Such modules, which all libraries may use."""
MADE = ("families", "fences")
"""The other modules that are no files."""
_SHARED = Path(__file__).parents[1] / "lua"


class Library:
    """The Lua functions of one package: the files of its ``lua`` directory.

    Args:
        package: import name of the package.
        uses: libraries whose modules these functions may use, besides those of the package and of the store.
        constants: modules of the package that Python declares.

    Raises:
        ScriptError: there is no such package, or a file of it is at fault.
    """

    def __init__(self, package: str, uses: Sequence[Library] = (), constants: Mapping[str, Constants] = {}) -> None:
        self.package = package
        self.folder = _folder(package)
        self.places = list(dict.fromkeys((self.folder, *(library.folder for library in uses), _SHARED)))
        """The ``lua`` directories in which modules are looked for, in this order."""
        self.constants = {**CONSTANTS, **constants}
        """Modules that Python declares, by name."""
        for library in uses:
            self.constants |= library.constants
        self._files = {place: _found(place) for place in self.places}
        found = self._files[self.folder].operations
        operations = {name: lua_source.read(path, self.folder) for name, path in found.items()}
        self._operations = operations
        self._modules = self._required()
        self._owns: dict[str, frozenset[str]] = {}  # by module: with those that it uses, which come before it
        for name, source in self._modules.items():
            self._owns[name] = self._owned(source)
        self._prefix = f"fleet_{package.rpartition('.')[2]}_"
        lines = self._build()
        self.origins = [line.origin for line in lines]
        """Where each line of the text came from, as ``claims/claim_item.lua:12``."""
        text = "".join(f"{line.text}\n" for line in lines)
        self._digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        self.text = text.replace(_DIGEST, self._digest)
        """What the server loads."""
        self.name = self._prefix + self._digest
        """Its name in the server."""

    def header(self, operation: str) -> Header:
        """The contract of an operation. Raises ScriptError for one that is not there."""
        if operation not in self._operations:
            raise ScriptError(f"no such script in {self.folder}: {operation}")
        return self._operations[operation].header

    def writes(self, operation: str) -> frozenset[str]:
        """What an operation may write: what it owns, and the modules that it uses, and those that they use. What goes
        through the protocol of reads writes nothing, and the server sees to that."""
        source = self._operations[operation]
        return frozenset() if _READS in source.requires else self._owned(source)

    def function(self, operation: str) -> str:
        """The operation's name in the server."""
        return f"{self._prefix}{operation}_{self._digest}"

    def _owned(self, source: Source) -> frozenset[str]:
        return source.header.owns.union(*(self._owns[name] for name in source.requires if name in self._owns))

    def _required(self) -> dict[str, Source]:
        modules: dict[str, Source] = {}
        self._add("run", "build.py", modules, ())
        for source in self._operations.values():
            for module in source.requires:
                self._add(module, source.name, modules, ())
        return modules

    def _build(self) -> list[Line]:
        used, modules = reach.reached(self._operations.values(), self._modules)
        lines: list[Line] = []
        for name, source in modules.items():
            lines += _wrapped(source, f"m.{name}=(function()", "end)()")
        for name, source in zip(self._operations, used, strict=True):
            lines += _registered(name, source, writes=bool(self.writes(name)))
        words = set(re.findall(r"\w+", " ".join(line.text for line in lines)))
        required = {module for source in (*modules.values(), *used) for module in source.requires}
        declared = (_constants(name, one, words) for name, one in self.constants.items() if name in required)
        made = [_families(words), *declared]
        if "fences" in required:
            made.append(Line(_FENCES, "build.py"))
        begin = _BEGIN.format(prefix=self._prefix, digest=_DIGEST).splitlines()
        return [*(Line(text, "build.py") for text in begin), *made, *lines]

    def _add(self, name: str, user: str, modules: dict[str, Source], waiting: tuple[str, ...]) -> None:
        """Appends a module, after those that it uses. ``waiting`` are the modules that use it in turn."""
        if name in waiting:
            raise ScriptError(f"{user}: circular modules: {' -> '.join((*waiting, name))}")
        if name in modules or name in MADE or name in self.constants:
            return
        found = {files.modules[name]: place for place, files in self._files.items() if name in files.modules}
        if not found:
            raise ScriptError(f"{user}: no module '{name}' in {' or '.join(map(str, self.places))}")
        if len(found) > 1 and name not in _REPLACEABLE:
            raise ScriptError(f"{user}: the module '{name}' exists twice: {' and '.join(map(str, found))}")
        source = lua_source.read(*next(iter(found.items())))
        for other in source.requires:
            self._add(other, source.name, modules, (*waiting, name))
        modules[name] = source


def fenced_name(name: str, generation: str) -> str:
    """The name of a library's variant that looks for fences."""
    return f"{FENCED_PREFIX}{generation}_{name.removeprefix('fleet_')}"


def usual_name(name: str) -> str:
    """The name of the library of which this may be a variant."""
    return f"fleet_{name.removeprefix(FENCED_PREFIX).partition('_')[2]}" if name.startswith(FENCED_PREFIX) else name


def generation_of(name: str) -> str:
    return name.removeprefix(FENCED_PREFIX).partition("_")[0] if name.startswith(FENCED_PREFIX) else ""


def fenced_text(text: str, generation: str) -> str:
    """The variant of a library that looks for fences, made from the text of the usual one, of any release.

    Raises:
        ScriptError: it is of a release that does not know of fences.
    """
    first, _, rest = text.partition("\n")
    name = first.partition("=")[2]
    if not name.startswith(FENCED_PREFIX):
        if not rest.startswith(_UNGUARDED):
            raise ScriptError(f"the functions {name} are of a release that does not know of fences")
        rest = _GUARDED + rest.removeprefix(_UNGUARDED)
    return f"#!lua name={fenced_name(usual_name(name), generation)}\n{rest}"


def _registered(name: str, source: Source, *, writes: bool) -> list[Line]:
    """The lines that make an operation a function of the server."""
    header, fields, parameters, first, at = source.header, [], [], "", 1
    for word in header.args:
        if word == "request":
            parameters.append(f",{{{','.join(f'{field}=a[{at + n}]' for n, field in enumerate(REQUEST))}}}")
            at += len(REQUEST) - 1
        elif word.startswith("run."):
            fields.append(f"{word.removeprefix('run.')}=a[{at}]")
        elif word.endswith("..."):
            first += f"local rest={{}} for n={at},#a do rest[n-{at - 1}]=a[n] end "
            parameters.append(",rest")
        else:
            parameters.append(f",a[{at}]")
        at += 1
    flags = "n" if not writes else "f" if header.full else "w"
    call = f"{first}return o(g({{{','.join(fields)}}},k[1]){''.join(parameters)})"
    after = f"end)()\nr('{name}',{flags},function(k,a)\n{call}\nend)\nend"
    return _wrapped(reach.inlined(source), "do\nlocal o=(function()", after)


def _families(words: set[str]) -> Line:
    """The module ``families``: what follows the partition's prefix in the keys of each of them, by scope and name."""
    scopes = (
        f"{scope}={{{','.join(f'{one.name}={one.lua_suffix!r}' for one in families.values() if one.name in words)}}}"
        for scope, families in keys.FAMILIES.items()
    )
    return Line(f"m.families={{{','.join(scopes)}}}", "keys.py")


def _constants(module: str, constants: Constants, words: set[str]) -> Line:
    """A module that Python declares, with the constants that are used."""
    used = (f"{name}={_literal(value)}" for name, value in constants.items() if name in words)
    return Line(f"m.{module}={{{','.join(used)}}}", "build.py")


def _literal(value: int | str | Sequence[str]) -> str:
    """A constant in Lua."""
    return repr(value) if isinstance(value, int | str) else f"{{{','.join(map(repr, value))}}}"


def _wrapped(source: Source, before: str, after: str) -> list[Line]:
    begin, end = ([Line(text, source.name) for text in part.splitlines()] for part in (before, after))
    return [*begin, *reach.required(source), *source.lines, *end]


def _found(folder: Path) -> Files:
    """The files of a directory; those of the store are looked for once, because each library uses them."""
    return _shared() if folder == _SHARED else lua_source.find(folder)


@functools.cache
def _shared() -> Files:
    return lua_source.find(_SHARED)


def _folder(package: str) -> Path:
    with contextlib.suppress(ModuleNotFoundError):
        if (spec := importlib.util.find_spec(package)) and spec.submodule_search_locations:
            return Path(spec.submodule_search_locations[0]) / "lua"
    raise ScriptError(f"'{package}' is not an importable package")
