"""Derives the facts about each setting from the structs: its names in every source, its type, its limits in words."""

from __future__ import annotations

import functools
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec import inspect as shapes

ENVIRONMENT_PREFIX = "FLEET_"

_SCALARS: tuple[Any, ...] = (str, int, float, bool)
_MISSING: Any = msgspec.NODEFAULT


@dataclass(slots=True, frozen=True)
class Field:
    """One setting: a leaf of the tree of structs."""

    path: tuple[str, ...]
    type: Any
    """The annotation, limits included."""
    default: Any
    """``msgspec.NODEFAULT`` if it must be given wherever its section is."""
    description: str
    unit: str
    group: str
    """A heading that starts at this field, or empty."""
    secret: bool
    simple: bool
    """Whether it is a scalar or a list of scalars, so that one text can hold it."""
    reload: bool
    """Whether a running process takes over a new value."""
    example: str
    """YAML for the example file, which shows it commented out; empty: the default is enough of an example."""
    alias: str
    """Another environment variable, without our prefix, that sets it too; empty: there is none."""
    twin: str = ""
    """The name of its environment variable, if that is not derived from the setting's name."""

    @property
    def name(self) -> str:
        """``port``, or ``section.field`` within a section."""
        return ".".join(self.path)

    @property
    def environment(self) -> str | None:
        """Its environment variable; None: only a file can set it."""
        return (self.twin or ENVIRONMENT_PREFIX + "_".join(self.path).upper()) if self.simple else None

    @property
    def flag(self) -> str | None:
        """Its flag; None: it is in a section, which only file and environment can set."""
        return "--" + self.path[0].replace("_", "-") if self.simple and len(self.path) == 1 else None

    @property
    def allowed(self) -> str:
        """What the value must be, in words: ``an integer from 1 to 64``."""
        return allowed(self.type)

    def value_in(self, settings: Struct) -> Any:
        return functools.reduce(getattr, self.path, settings)


def bare(annotation: Any) -> Any:
    """The annotation without ``Annotated``."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = annotation.__origin__
    return annotation


def is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Struct)


def is_list(annotation: Any) -> bool:
    """Whether the (bare) annotation is a homogeneous list."""
    return typing.get_origin(annotation) in (list, tuple, frozenset, set)


def is_union(annotation: Any) -> bool:
    """Whether the (bare) annotation is a union."""
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def non_null(annotation: Any) -> Any:
    """``X`` for ``X | None``; any other annotation as it is."""
    parts = typing.get_args(annotation)
    if is_union(annotation) and type(None) in parts and len(parts) == 2:
        return parts[0] if parts[1] is type(None) else parts[1]
    return annotation


def is_secret(annotation: Any) -> bool:
    """Whether values of this type are never shown."""
    return bool(_meta(annotation).get("extra", {}).get("secret"))


def has_secret_path(annotation: Any) -> bool:
    """Whether of URLs of this type only the host is shown."""
    return bool(_meta(annotation).get("extra", {}).get("secret_path"))


def is_argument(annotation: Any) -> bool:
    """Whether values of this type are arguments of a command line, whose options are shown without their values."""
    return bool(_meta(annotation).get("extra", {}).get("argument"))


def holds_secret(annotation: Any, above: frozenset[Any] = frozenset()) -> bool:
    """Whether a value of this type is never shown, or has parts that are not."""
    kind = bare(annotation)
    if is_secret(annotation):
        return True
    if not is_struct(kind):
        return any(holds_secret(one, above) for one in typing.get_args(kind))
    parts = () if kind in above else typing.get_type_hints(kind, include_extras=True).values()
    return any(holds_secret(one, above | {kind}) for one in parts)


def may_be_one(annotation: Any) -> bool:
    """Whether a list of this type with one entry may be written without brackets in a file."""
    return bool(_meta(annotation).get("extra", {}).get("one"))


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not _MISSING:
        return field.default_factory()
    return field.default


@functools.cache
def parts_of(cls: type[Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields of a struct by the names that files give them. Their annotations take long to evaluate."""
    return {field.encode_name: field for field in msgspec.structs.fields(cls)}


@functools.cache
def defaults_of(cls: type[Struct]) -> tuple[Any, ...]:
    """The default of each field, in the order of ``__struct_fields__``."""
    return tuple(map(default_of, msgspec.structs.fields(cls)))


def camel(field: str) -> str:
    """``max_delay_ms`` as a file writes it in structs that are renamed: ``maxDelayMs``."""
    head, *rest = field.split("_")
    return head + "".join(part.capitalize() for part in rest)


@functools.cache
def fields_of(cls: type[Struct], path: tuple[str, ...] = ()) -> tuple[Field, ...]:
    """Every setting of a struct, sections flattened, in the order of declaration."""
    found: list[Field] = []
    for field in msgspec.structs.fields(cls):
        here = (*path, field.encode_name)
        kind = bare(field.type)
        if is_struct(kind):
            found.extend(fields_of(kind, here))
            continue
        meta = _meta(field.type)
        extra = meta.get("extra", {})
        found.append(
            Field(
                path=here,
                type=field.type,
                default=default_of(field),
                description=meta.get("description", ""),
                unit=extra.get("unit", ""),
                group=extra.get("group", ""),
                secret=is_secret(field.type),
                simple=_is_simple(kind),
                reload=bool(extra.get("reload")),
                example=extra.get("example", ""),
                alias=extra.get("alias", ""),
                twin=extra.get("environment", ""),
            )
        )
    return tuple(found)


def allowed(annotation: Any) -> str:
    """What a value of this type must be, in words."""
    extra = _meta(annotation).get("extra", {})
    if "allowed" in extra:
        return str(extra["allowed"])
    kind = bare(annotation)
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(str(value) for value in typing.get_args(kind))
    if is_list(kind):
        shape = shapes.type_info(annotation)
        at_least, at_most = (getattr(_inner(shape), name, None) for name in ("min_length", "max_length"))
        head = f"a list with at least {at_least} of" if at_least else "a list, each entry"
        tail = f" (at most {at_most})" if at_most else ""
        return f"{head} {allowed(typing.get_args(kind)[0])}{tail}"
    if is_union(kind):
        return " or ".join("null" if part is type(None) else allowed(part) for part in typing.get_args(kind))
    if kind is bool:
        return "true or false"
    if kind in (int, float):
        return ("an integer" if kind is int else "a number") + _range(_inner(shapes.type_info(annotation)))
    if kind is str:
        return "text"
    if is_struct(kind) or kind is dict or typing.get_origin(kind) is dict:
        return "a mapping"
    return str(getattr(kind, "__name__", kind))


def _range(shape: Any) -> str:
    low, high = shape.ge, shape.le
    if low is not None and high is not None:
        return f" from {low} to {high}"
    limits = [
        f"{words} {limit}"
        for words, limit in (("at least", low), ("at most", high), ("above", shape.gt), ("below", shape.lt))
        if limit is not None
    ]
    return " " + " and ".join(limits) if limits else ""


def _inner(shape: Any) -> Any:
    while isinstance(shape, shapes.Metadata):
        shape = shape.type
    return shape


def _meta(annotation: Any) -> dict[str, Any]:
    """Description and extra of the annotation's ``Meta`` objects, merged."""
    merged: dict[str, Any] = {}
    for item in getattr(annotation, "__metadata__", ()):
        if isinstance(item, msgspec.Meta):
            merged.update({key: value for key in ("description", "extra") if (value := getattr(item, key)) is not None})
    return merged


def _is_simple(kind: Any) -> bool:
    inner = bare(non_null(kind))
    kind = inner if is_list(inner) else kind
    if is_list(kind):
        return _is_simple(bare(typing.get_args(kind)[0]))
    return kind in _SCALARS or typing.get_origin(kind) is Literal
