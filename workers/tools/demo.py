"""A few tools for trying workflows out (``flows: {demo_tools: true}``): those of the examples of flows, and helpers.

The knowledge tools keep short texts in Redis, per project. A text that ``knowledge_add`` adds is stored under
its step's id, as is what ``get_counter`` gave, so a repeated attempt adds and counts nothing twice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from coordinator.errors import ToolFailure
from coordinator.steps.model import Failure, Outcome, StepRun, Success
from coordinator.steps.names import DEMO_TOOLS
from coordinator.store import Library, Script, ScriptFailure, Store, keys
from coordinator.toolsets.arguments import explained
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.rules.permissions import ADMIN
from coordinator.toolsets.schema import input_schema
from workers.tools.source import Source, StepTool

MOST_TEXTS = 1_000
_COUNT_SECONDS = 86_400
LIBRARY = Library("workers.tools")
_ADD = Script(LIBRARY, "knowledge_add")
_COUNT: Script[Any] = Script(LIBRARY, "count")
_WORD = re.compile(r"\w+")
_encode = msgspec.json.Encoder().encode


class _Arguments(Struct, forbid_unknown_fields=True, kw_only=True):
    """Arguments of a tool."""


class Nothing(_Arguments):
    """No arguments."""


class Greeting(_Arguments):
    """Whom to greet."""

    name: str = "World"


class Sleep(_Arguments):
    """How long to wait."""

    ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 1_000


class Fail(_Arguments):
    """How to fail; with ``until_attempt`` only before that attempt."""

    message: str = "told to fail"
    until_attempt: Annotated[int, Meta(ge=0)] = 0


class Addition(_Arguments):
    """A text to keep."""

    title: Annotated[str, Meta(min_length=1, max_length=200)]
    content: Annotated[str, Meta(max_length=4_000)] = ""
    scope: Annotated[str, Meta(max_length=100)] = "general"


class Scope(_Arguments):
    """Which texts to list; empty: all."""

    scope: str = ""


class Query(_Arguments):
    """What to look for."""

    query: str
    limit: Annotated[int, Meta(ge=1, le=100)] = 10


class Text(NamedTuple):
    """A kept text."""

    id: str
    title: str
    content: str
    scope: str


_text = msgspec.json.Decoder(Text).decode


class DemoTools(Source):
    """The demo tools over a store."""

    name = "demo"

    def __init__(self, store: Store) -> None:
        self._store = store
        typed: Mapping[str, tuple[type[_Arguments], Callable[..., Awaitable[Any]]]] = {
            "get_greeting": (Greeting, self._greeting),
            "get_counter": (Nothing, self._counter),
            "is_admin": (Nothing, self._is_admin),
            "sleep": (Sleep, self._sleep),
            "fail": (Fail, self._fail),
            "knowledge_add": (Addition, self._add),
            "knowledge_list": (Scope, self._list),
            "knowledge_search": (Query, self._search),
            "knowledge_search_text": (Query, self._search_text),
        }
        self._tools = {
            name: StepTool(name, partial(_typed, shape, act), _about(act)) for name, (shape, act) in typed.items()
        }
        self._tools["echo"] = StepTool("echo", _echo, _about(_echo))

    def find(self, name: str) -> StepTool | None:
        return self._tools.get(name)

    async def listed(self) -> Sequence[StepTool]:
        return [self._tools[name] for name in DEMO_TOOLS]

    async def _greeting(self, _step: StepRun, args: Greeting, _caller: Caller | None) -> str:
        """Greets somebody: {"name": "World"}."""
        return f"Hello, {args.name}!"

    async def _counter(self, step: StepRun, _args: Nothing, _caller: Caller | None) -> int:
        """A number that is one higher in each step."""
        return int(await self._store.run(_COUNT, step.project, step.idempotency_key, _COUNT_SECONDS))

    async def _is_admin(self, _step: StepRun, _args: Nothing, caller: Caller | None) -> bool:
        """Whether the workflow's creator is known and has the permission workflow.admin."""
        return caller is not None and ADMIN in caller.permissions

    async def _sleep(self, _step: StepRun, args: Sleep, _caller: Caller | None) -> None:
        """Waits: {"ms": 1000}."""
        await asyncio.sleep(args.ms / 1000)

    async def _fail(self, step: StepRun, args: Fail, _caller: Caller | None) -> str:
        """Fails: {"message": "..."}; with {"until_attempt": 3} only before that attempt."""
        if args.until_attempt and step.attempt >= args.until_attempt:
            return "ok"
        raise _DemoFailure(args.message)

    async def _add(self, step: StepRun, args: Addition, _caller: Caller | None) -> dict[str, str]:
        """Keeps a text: {"title", "content", "scope"}."""
        text = _encode(Text(step.idempotency_key, args.title, args.content, args.scope))
        try:
            await self._store.run(_ADD, step.project, step.idempotency_key, text, MOST_TEXTS)
        except ScriptFailure:
            raise _DemoFailure(f"there are {MOST_TEXTS} texts already, and no room for more") from None
        return {"id": step.idempotency_key, "title": args.title}

    async def _list(self, step: StepRun, args: Scope, _caller: Caller | None) -> list[dict[str, str]]:
        """Titles of all texts, or of those of a scope: {"scope": ""}."""
        return [
            {"id": text.id, "title": text.title, "scope": text.scope}
            for text in await self._texts(step.project)
            if args.scope in ("", text.scope)
        ]

    async def _search(self, step: StepRun, args: Query, _caller: Caller | None) -> list[dict[str, Any]]:
        """Texts with words of a query, best first: {"query", "limit"}."""
        wanted = set(_words(args.query))
        results: list[tuple[float, str]] = []
        for text in await self._texts(step.project):
            inside = len(wanted & set(_words(text.content))) + 2 * len(wanted & set(_words(text.title)))
            if inside:
                results.append((-round(inside / (3 * len(wanted)), 2), text.title))
        return [{"title": title, "score": -score} for score, title in sorted(results)[: args.limit]]

    async def _search_text(self, step: StepRun, args: Query, _caller: Caller | None) -> list[dict[str, str]]:
        """Texts that hold a query as it stands, whatever the case: {"query", "limit"}."""
        wanted = args.query.lower()
        return [
            {"title": text.title, "content": text.content}
            for text in await self._texts(step.project)
            if wanted in text.title.lower() or wanted in text.content.lower()
        ][: args.limit]

    async def _texts(self, project: str) -> list[Text]:
        kept = await self._store.command("HVALS", keys.knowledge.key(project))
        return sorted(map(_text, kept))


class _DemoFailure(Exception):
    """A tool was told to fail, or cannot execute the call. The text becomes the step's error."""


async def _echo(_step: StepRun, arguments: dict[str, Any], _caller: Caller | None) -> Outcome:
    """Returns its arguments, or what is under value if that is the only one."""
    return Success(arguments["value"] if arguments.keys() == {"value"} else arguments)


async def _typed(
    shape: type[_Arguments],
    act: Callable[..., Awaitable[Any]],
    step: StepRun,
    arguments: dict[str, Any],
    caller: Caller | None,
) -> Outcome:
    try:
        args = msgspec.convert(arguments, shape)
    except msgspec.ValidationError as error:
        failure = explained(str(error), input_schema(shape))
        return Failure(failure.message, failure.code, retryable=False)
    try:
        return Success(await act(step, args, caller))
    except _DemoFailure as refusal:
        return Failure(str(refusal), "tool_error")
    except ToolFailure as failure:
        return Failure(failure.message, failure.code, failure.kind != "permanent")


def _about(act: Callable[..., Any]) -> str:
    return act.__doc__ or ""


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
