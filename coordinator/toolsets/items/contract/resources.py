"""Resources that items demand, and that claims hold."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from coordinator.settings.resources import KEY_LENGTH, MOST_UNITS
from coordinator.toolsets.items.contract.base import Arguments, Result

_MODES = ["exclusive", "shared"]
_KEY = {"minLength": 1, "maxLength": KEY_LENGTH}
_UNITS = {"minimum": 1, "maximum": MOST_UNITS}


class GivenResource(Arguments, kw_only=True):
    """A resource that an item demands."""

    key: Annotated[str, Meta(description="A path: 'gpu', 'repo/app'.", extra_json_schema=_KEY)]
    mode: Annotated[str, Meta(description="Default exclusive.", extra_json_schema={"enum": _MODES})] = "exclusive"
    units: Annotated[int, Meta(description="Of exclusive; default 1.", extra_json_schema=_UNITS)] = 1


class Resource(Result, kw_only=True):
    """A resource, and what is demanded of it."""

    key: Annotated[str, Meta(description="Its path.")]
    mode: Annotated[str, Meta(description="exclusive or shared.", extra_json_schema={"enum": _MODES})]
    units: Annotated[int, Meta(description="Of exclusive; else 1.")]
