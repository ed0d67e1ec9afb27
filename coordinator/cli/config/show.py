"""``fleet config show`` and ``fleet config example``."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from coordinator.cli.flags import with_settings
from coordinator.cli.terminal import print_json
from coordinator.settings import LoadedSettings, Settings, example_yaml
from coordinator.settings.fields import Field, fields_of
from coordinator.settings.redact import shown_value

Format = Literal["auto", "table", "plain", "json"]


@with_settings(starts_store=True)
def show(
    loaded: LoadedSettings,
    *,
    format: Annotated[
        Format,
        Parameter(help="Shape of the output; 'auto' is a table on a terminal, else plain lines."),
    ] = "auto",
) -> None:
    shape = format
    if shape == "auto":
        shape = "table" if sys.stdout.isatty() else "plain"
    rows = [
        (field, shown_value(field.value_in(loaded.settings), field.type), loaded.sources[field.name])
        for field in fields_of(Settings)
    ]
    if shape == "table":
        _print_table(rows)
    elif shape == "json":
        print_json(_report(loaded, rows))
    else:
        for field, value, source in rows:
            print(f"{field.name} = {_text(value)}  ({source})")


def example() -> None:
    print(example_yaml(), end="")


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode() if not isinstance(value, str) or not value else value


def _report(loaded: LoadedSettings, rows: list[tuple[Field, Any, str]]) -> dict[str, Any]:
    return {
        "config": str(loaded.config) if loaded.config else None,
        "settings": {
            field.name: {"value": value, "source": source, **({"unit": field.unit} if field.unit else {})}
            for field, value, source in rows
        },
    }


def _print_table(rows: list[tuple[Field, Any, str]]) -> None:
    # Imported here: only tables on a terminal need rich.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("Setting", "Value", "Unit", "From", box=None, pad_edge=False, header_style="bold")
    for field, value, source in rows:
        style = "dim" if source == "default" else ""
        text = ", ".join(value) if isinstance(value, dict) else _text(value)
        table.add_row(Text(field.name), Text(text), Text(field.unit), Text(source, style=style))
    Console().print(table)
