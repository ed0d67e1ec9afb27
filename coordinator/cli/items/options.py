"""The options of ``fleet items`` for fields of items: those of the table of fields, and what goes with one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.items.arguments import FROM_FILE, given, item, words
from coordinator.cli.items.completing import ids
from coordinator.client.plans.fields import PLAN_FIELDS
from coordinator.toolsets.items import FIELDS, FILTERS, Field, Flag, Kind

T = TypeVar("T")

PARTS_OF_CRON = "--time-zone, --missed and --overlap"
CLEARED = {field.options[0].removeprefix("--"): field.name for field in FIELDS if field.flag and field.flag.clears}
"""What ``--clear`` takes -> the name of the field."""


def _with_options(fields: Iterable[Field], said: Callable[[Flag], str]) -> Callable[[type[T]], type[T]]:
    """Decorates a class that takes keywords: these are the options of some fields, by attribute, and then its own."""
    parameters = [_option(field, flag, said(flag)) for field in fields if (flag := field.flag)]

    def decorate(options: type[T]) -> type[T]:
        def init(self: T, **keywords: Any) -> None:
            before(self, **keywords)

        made: Any = options
        before = made.__init__
        own = [
            one for one in inspect.signature(before, eval_str=True).parameters.values() if one.kind is one.KEYWORD_ONLY
        ]
        # cyclopts reads the signature for the parameters and the annotations for their types.
        init.__signature__ = inspect.Signature([*parameters, *own])  # type: ignore[attr-defined]
        init.__annotations__ = {each.name: each.annotation for each in [*parameters, *own]}
        made.__init__ = init
        return Parameter(name="*")(options)

    return decorate


def _option(field: Field, flag: Flag, said: str) -> inspect.Parameter:
    parameter = Parameter(
        name=field.options,
        help=f"{said} {FROM_FILE}" if flag.long else said,
        completer=ids if field.kind is Kind.ID else None,
        allow_leading_hyphen=flag.long,
    )
    yes = flag.type is bool
    annotation = Annotated[bool if yes else flag.type | None, parameter]  # type: ignore[valid-type]
    default = False if yes else None
    return inspect.Parameter(field.attribute, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


class _Options:
    def __init__(self, **options: Any) -> None:
        self._options = options

    def given(self) -> dict[str, Any]:
        """Those that are given, as the tools take them."""
        pairs = [(field, self._options.get(field.attribute)) for field in FIELDS]
        return {field.name: _value(field, value) for field, value in pairs if value is not None and value is not False}


def _value(field: Field, value: Any) -> Any:
    if field.kind is Kind.ID:
        return item(value, field.options[0])
    if field.flag and field.flag.long:
        return words(value)
    try:
        return PLAN_FIELDS[field.name].form(value) if isinstance(value, str) else value
    except ValueError as error:
        raise CommandFailed(f"{field.options[0]}: {error}", Exit.USAGE) from None


@_with_options(FILTERS, lambda flag: flag.finds)
class Filters(_Options):
    """The options that choose items."""


@_with_options(FILTERS, lambda flag: flag.finds)
class Selector(Filters):
    """The options that choose items to work on."""

    def __init__(
        self,
        *,
        ancestor: Annotated[str | None, Parameter(help="Only below this item, at any depth.", completer=ids)] = None,
        **filters: Any,
    ) -> None:
        super().__init__(**filters)
        self._ancestor = ancestor

    def given(self) -> dict[str, Any]:
        """Those that are given, as the tools take them. Raises as ``Filters.given``."""
        fields = super().given()
        return fields if self._ancestor is None else {**fields, "ancestorId": item(self._ancestor, "--ancestor")}


@_with_options(FIELDS, lambda flag: flag.help)
class Fields(_Options):
    """The options for the fields of an item."""

    def __init__(
        self,
        *,
        time_zone: Annotated[str | None, Parameter(help="Of --cron, as in Europe/Berlin; default UTC.")] = None,
        missed: Annotated[Literal["skip", "one", "all"] | None, Parameter(help="Of --cron: times that passed.")] = None,
        overlap: Annotated[
            Literal["skip", "allow"] | None, Parameter(help="Of --cron: while an earlier one is open.")
        ] = None,
        **fields: Any,
    ) -> None:
        super().__init__(**fields)
        self._of_cron = given(timeZone=time_zone, missed=missed, overlap=overlap)

    def given(self) -> dict[str, Any]:
        """Those that are given, as the tools take them. Raises as ``Filters.given``."""
        fields = super().given()
        return {**fields, "recurs": fields.get("recurs", {}) | self._of_cron} if self._of_cron else fields


EVERYTHING, ANY, NO_FIELDS = Filters(), Selector(), Fields()
