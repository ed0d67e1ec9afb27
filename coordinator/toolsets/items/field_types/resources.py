"""Resources that items demand, and that claims hold."""

from __future__ import annotations

from typing import Annotated

from coordinator.settings.sections.resources import KEY_LENGTH, MOST_UNITS
from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.field_types import base

_MODES = ["exclusive", "shared"]
_KEY = {"minLength": 1, "maxLength": KEY_LENGTH}
_UNITS = {"minimum": 1, "maximum": MOST_UNITS}


class GivenResource(base.Arguments, kw_only=True):
    """A resource that an item demands."""

    key: Annotated[str, doc("A path: 'gpu', 'repo/app'.", published=_KEY)]
    mode: Annotated[str, doc("Default exclusive.", enum=_MODES)] = "exclusive"
    units: Annotated[int, doc("Of exclusive; default 1.", published=_UNITS)] = 1


class Resource(base.Result, kw_only=True):
    """A resource, and what is demanded of it."""

    key: Annotated[str, doc("Its path.")]
    mode: Annotated[str, doc("exclusive or shared.", enum=_MODES)]
    units: Annotated[int, doc("Of exclusive; else 1.")]
