"""What the declaration of a setting says beside its type and its default."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

from msgspec import Meta


class About(TypedDict, total=False):
    """What the settings use of a declaration, and msgspec does not know; kept in ``Meta.extra``."""

    unit: str
    group: str
    """A heading in the example file, for this field and those that follow."""
    allowed: str
    """What a value must be, in words, where the type and its bounds do not tell."""
    secret: bool
    """The value is never shown."""
    secret_path: bool
    """Of a URL only the host is shown."""
    argument: bool
    """An argument of a command line, whose options are shown without their values."""
    reload: bool
    """A running process takes over a new value."""
    example: str
    """YAML that the example file shows commented out."""
    alias: str
    """Another environment variable that sets the same."""
    environment: str
    """The name of the environment variable, if it is not derived from the field's."""
    one: bool
    """A list with one entry may be written without brackets in a file."""


def setting(
    description: str | None = None,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    pattern: str | None = None,
    **about: Unpack[About],
) -> Meta:
    """Describes a setting for readers of the example file, and bounds its values as ``msgspec.Meta`` does."""
    bounds: dict[str, Any] = {"ge": ge, "gt": gt, "le": le}
    bounds |= {"min_length": min_length, "max_length": max_length, "pattern": pattern}
    return Meta(description=description, extra=dict(about) or None, **bounds)
