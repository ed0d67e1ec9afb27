"""The canonical form of a call's arguments, of which its fingerprint is made (``coordinator.store.idempotency``).

Calls that mean the same have the same form, however they are written. Of each argument it has what the struct does not
say by leaving it out: what equals a default, null and blank text are left out, and words have one case. So an optional
argument that is added later changes no form. The structs say by ``Meta.extra`` what their types do not:

- ``meant(value)``: the value that leaving an argument out means, where the struct's default is null or UNSET;
- ``SHARED``: an element that leaves it out has that of the call, in the argument of the same name;
- ``STATED_BLANK``: blank text means something else than leaving it out;
- ``UNCHANGED_BY_NULL`` and ``UNCHANGED_BY_BLANK``: an update with null, or with blank text, leaves the field as it is;
- ``UNORDERED``: a list in which neither order nor repetition means anything;
- ``NOT_COMPARED``: it is no part of what a repeated call must repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from functools import partial as bound
from types import NoneType, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET, Meta

Form = dict[str, Any]
SHARED = {"shared": True}
STATED_BLANK = {"stated_blank": True}
UNCHANGED_BY_NULL = {"unchanged_by_null": True}
UNCHANGED_BY_BLANK = {"unchanged_by_blank": True}
UNORDERED = {"unordered": True}
NOT_COMPARED = {"not_compared": True}

_LEFT_OUT: Any = object()
_NOTHING: Form = {}
_NEVER = object()
"""Equals no value."""
_Read = Callable[[Any, bool, Form, Form], Any]
"""Makes the value of one argument canonical; ``_LEFT_OUT`` where leaving it out means the same. Takes the value,
``partial``, the members of the struct that it is in, and those of the struct which has that one in a list."""
_Readers = Mapping[str, _Read | None]
"""What reads each argument of a struct. None: it counts as it is; ``_LEFT_OUT``: it never counts."""


def meant(value: object) -> dict[str, object]:
    """``Meta.extra`` of an argument: the value that leaving it out means."""
    return {"meant": value}


def canonical(arguments: msgspec.Struct, *, partial: bool = False) -> Form:
    """The arguments in canonical form, in builtin types.

    Args:
        partial: what is left out is not looked at: the call is an update or a delete, in which only defaults of the
            structs themselves count.
    """
    return _form(_readers(type(arguments)), msgspec.to_builtins(arguments), partial, _NOTHING)


def _form(readers: _Readers, members: Form, partial: bool, above: Form, _: Form = _NOTHING) -> Form:
    """The form of a struct; ``above``: the members of the one that has it."""
    form: Form = {}
    for name, value in members.items():
        if (read := readers[name]) is None:
            form[name] = value
        elif read is not _LEFT_OUT and (canonical_value := read(value, partial, members, above)) is not _LEFT_OUT:
            form[name] = canonical_value
    return form


@lru_cache(maxsize=512)
def _readers(struct: type[msgspec.Struct]) -> _Readers:
    hints = get_type_hints(struct, include_extras=True)
    return {
        field.encode_name: _reader(field.encode_name, hints[field.name], _default(field))
        for field in msgspec.structs.fields(struct)
    }


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not NODEFAULT:
        return field.default
    return _NEVER if field.default_factory is NODEFAULT else field.default_factory()


def _reader(name: str, hint: Any, default: Any) -> _Read | None:
    about = _About(hint)
    extra, words, inner = about.extra, about.words, about.inner
    if "not_compared" in extra:
        return cast("_Read", _LEFT_OUT)
    optional, missing, shared = default is None or default is UNSET, extra.get("meant", _NEVER), "shared" in extra
    if not (optional or words or inner) and default is _NEVER:
        return None

    def empty(value: str | None, partial: bool) -> Any:
        if value is not None and "stated_blank" in extra:
            return ""
        if not partial or default is None:
            return _LEFT_OUT
        unchanged = "unchanged_by_null" if value is None else "unchanged_by_blank"
        return _LEFT_OUT if unchanged in extra else None  # a blank text clears, as null does

    def stated(value: Any, partial: bool, members: Form, above: Form) -> Any:
        """The value without looking at what leaving it out means."""
        if value.__class__ is str:
            if optional and (not value or value.isspace()):
                return empty(value, partial)
            return (words.get(value) or words.get(value.lower(), value)) if words else value
        if value is None:
            return empty(value, partial) if optional else None
        return value if inner is None else inner(value, partial, members, above)

    def read(value: Any, partial: bool, members: Form, above: Form) -> Any:
        value = stated(value, partial, members, above)
        if value == default and value.__class__ is default.__class__:  # True is not 1
            return _LEFT_OUT
        if partial or (missing is _NEVER and not shared):
            return value
        other = stated(above[name], partial, members, above) if shared and name in above else _LEFT_OUT
        return _LEFT_OUT if value == (missing if other is _LEFT_OUT else other) else value

    if shared or missing is not _NEVER or (words and default is not _NEVER):
        return read
    return _shorter(read, default, about)


def _shorter(read: _Read, default: Any, about: _About) -> _Read:
    """A shorter way to the same for the many arguments whose value is compared at most with their own default."""
    words, inner = about.words, about.inner

    def read_unlike_default(value: Any, partial: bool, members: Form, above: Form) -> Any:
        return _LEFT_OUT if value == default and value.__class__ is default.__class__ else value

    def read_plain(value: Any, partial: bool, members: Form, above: Form) -> Any:
        if value is None or (value.__class__ is str and (not value or value.isspace())):
            return read(value, partial, members, above)
        return value

    def read_inner(value: Any, partial: bool, members: Form, above: Form) -> Any:
        if value is None or inner is None:
            return read(value, partial, members, above)
        return inner(value, partial, members, above)

    if words:
        return lambda value, partial, given, above: words.get(value) or words.get(value.lower(), value)
    if inner is None:
        return read_plain if default is None or default is UNSET else read_unlike_default
    # Where an empty list is the default, it has not been encoded.
    return inner if default in (_NEVER, []) and not about.nullable else read_inner


class _About:
    """What the type of an argument says about its values."""

    def __init__(self, hint: Any) -> None:
        self.extra: dict[str, Any] = {}
        self.words: dict[str, str] = {}
        """Of an enumeration, also by their lower case."""
        self.inner: _Read | None = None
        """What reads a struct or a list."""
        self.nullable = False
        for kind in self._kinds(hint):
            self.nullable |= kind is NoneType
            self.inner = _list(kind, "unordered" in self.extra) or _struct(kind) or self.inner

    def _kinds(self, hint: Any) -> Iterator[Any]:
        """The types that a value may have; notes what annotations say."""
        if get_origin(hint) is Annotated:
            for meta in hint.__metadata__:
                if isinstance(meta, Meta):
                    self.extra |= meta.extra or {}
                    stated = (meta.extra_json_schema or {}).get("enum", ())
                    texts = [word for word in stated if isinstance(word, str)]
                    self.words |= {word.lower(): word for word in texts} | {word: word for word in texts}
            yield from self._kinds(hint.__origin__)
        elif get_origin(hint) in (Union, UnionType):
            for one in get_args(hint):
                yield from self._kinds(one)
        else:
            yield hint


def _struct(kind: Any) -> _Read | None:
    """What reads a struct of this kind; None: it is none."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return None
    return bound(_form, _readers(kind))


def _list(kind: Any, unordered: bool) -> _Read | None:
    """What reads a list of this kind; None: it is none."""
    if get_origin(kind) is not list:
        return None
    element = _About(get_args(kind)[0])
    one, words = element.inner, element.words

    def read(value: list[Any], partial: bool, members: Form, above: Form) -> list[Any]:
        if one is not None:
            return [one(element, partial, members, above) for element in value]
        values = [words.get(text.lower(), text) for text in value] if words else value
        return sorted(set(values)) if unordered else values

    return read
