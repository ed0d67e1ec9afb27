"""What the operations of a library can reach: a package uses few functions of most modules that it shares with others.

Of a module, each function at its level is left out that no kept line names; other lines are kept with their module. A
name in a text counts, too, so what is kept may be more than is needed, never less.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from coordinator.store.libraries.source import Line, Source

_WORD = re.compile(r"(?<!\w)(?<![^.]\.)(\w+)(?:\.(\w+))?")


def reached(operations: Iterable[Source], modules: dict[str, Source]) -> tuple[list[Source], dict[str, Source]]:
    """The operations, and the modules that they reach, with what is reached of them, in the order of ``modules``."""
    operations = list(operations)
    blocks = {id(source): _blocks(source) for source in (*operations, *modules.values())}
    seen: set[tuple[int, str]] = set()
    open_ = [(source, block) for source in operations for block in blocks[id(source)]]
    open_.append((modules["run"], ""))
    while open_:
        source, block = open_.pop()
        if (id(source), block) in seen or block not in blocks[id(source)]:
            continue
        seen.add((id(source), block))
        for name, field in blocks[id(source)][block]:
            other = modules.get(name) if name in source.requires else None
            if name == _own(source) and not field:
                open_ += [(source, one) for one in blocks[id(source)]]
            elif other is None:
                open_ += [(source, name), (source, f".{field}")]
            elif field:
                open_ += [(other, ""), (other, f".{field}")]
            else:  # as a value
                open_ += [(other, one) for one in blocks[id(other)]]

    def kept(source: Source) -> Source:
        lines = [line for line in source.lines if (id(source), line.block) in seen]
        here = (words for block, words in blocks[id(source)].items() if (id(source), block) in seen)
        names = {name for words in here for name, _ in words}
        return source._replace(lines=lines, requires=[name for name in source.requires if name in names])

    return [kept(source) for source in operations], {
        name: kept(source) for name, source in modules.items() if (id(source), "") in seen
    }


def _blocks(source: Source) -> dict[str, set[tuple[str, str]]]:
    """The words of a file by the function that they stand in, each a name and a field of it, or ''."""
    texts: dict[str, list[str]] = {"": []}
    own = _own(source)
    for line in source.lines:
        if line.text not in (f"local {own}={{}}", f"return {own}"):
            texts.setdefault(line.block, []).append(line.text.replace(f"run[{own}]", "run"))  # what it keeps in a call
    return {block: set(_WORD.findall("\n".join(lines))) for block, lines in texts.items()}


def _own(source: Source) -> str:
    """The name of the table that a module returns."""
    return source.lines[-1].text.removeprefix("return ") if source.lines else ""


def inlined(source: Source) -> Source:
    """An operation that names the modules which it uses once where it uses them: that is shorter, and a call runs it
    once."""
    text = "\n".join(line.text for line in source.lines)
    once = [name for name in source.requires if len(re.findall(_named(name), text)) == 1]
    if not once:
        return source
    used = re.compile("|".join(map(_named, once)))
    lines = [line._replace(text=used.sub(r"m.\g<0>", line.text)) for line in source.lines]
    return source._replace(lines=lines, requires=[name for name in source.requires if name not in once])


def _named(name: str) -> str:
    return rf"(?<!\w)(?<![^.]\.){name}\b"


def required(source: Source) -> list[Line]:
    """The line by which a file gets its modules: one, because a library has hundreds of them."""
    if not source.requires:
        return []
    names = ",".join(source.requires)
    return [Line(f"local {names}={','.join(f'm.{name}' for name in source.requires)}", f"{source.name}:1")]
