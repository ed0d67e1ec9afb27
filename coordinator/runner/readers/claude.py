"""Events of ``claude -p --output-format stream-json --verbose``.

Its ``json`` format is the last of them; with ``--verbose``, which may come from the user's settings, an array of all.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from coordinator.runner.protocols import Trouble
from coordinator.runner.readers.lines import EventReader, Json, money, whole, words

_PARTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
"""Tokens in the usage of a message, and of a session."""
_LIMITS = ("error_max_turns", "error_max_budget_usd", "error_max_structured_output_retries")


class ClaudeReader(EventReader):
    """Reads Claude Code.

    A failed call of its API ends in ``subtype: success`` with ``is_error``; denied tools are told by
    ``permission_denials`` only. A message comes in parts that repeat its usage, so usage counts once per message.
    """

    def __init__(self) -> None:
        super().__init__()
        self._messages: dict[str, Json] = {}
        self._last: tuple[str, str] = "", ""
        """The id of its last message with text, which may come in parts, and the text."""

    def event(self, event: Json) -> None:
        reading = self._reading
        reading.session = words(event.get("session_id")) or reading.session
        match event.get("type"):
            case "system":
                self._system(event)
            case "assistant":
                self._assistant(event["message"], own=not event.get("parent_tool_use_id"))
            case "rate_limit_event":
                limit = event["rate_limit_info"]
                if limit.get("status") == "rejected" and isinstance(limit.get("resetsAt"), int | float):
                    reading.retry_after_seconds = max(1.0, limit["resetsAt"] - time.time())
            case "result":
                self._result(event)

    def _system(self, event: Json) -> None:
        match event.get("subtype"):
            case "init":
                self._reading.usage.model = words(event.get("model")) or None
                down = [server["name"] for server in event.get("mcp_servers", ()) if server.get("status") == "failed"]
                self.show("started", event.get("model"), f"without MCP server {', '.join(down)}" if down else "")
            case "api_retry":
                self.show("retrying:", event.get("error"), event.get("error_status"))

    def _assistant(self, message: Json, *, own: bool) -> None:
        """Takes a part of a message, of the agent's own or of a subagent."""
        if message.get("model") != "<synthetic>":
            self._messages[str(message.get("id"))] = message.get("usage") or {}
            self._sum()
        for part in message.get("content") or ():
            if part.get("type") == "tool_use":
                arguments = part.get("input") or {}
                self.show(part.get("name"), next((str(value) for value in arguments.values()), ""))
            elif part.get("type") == "text":
                self.show(part.get("text"))
                if own and (text := words(part.get("text"))).strip() and message.get("model") != "<synthetic>":
                    name, before = self._last
                    key = str(message.get("id"))
                    self._last = key, before + text if name == key else text

    def _sum(self) -> None:
        """Usage so far, for runs that end without a result."""
        self._count(self._messages.values(), _PARTS)
        self._reading.usage.turns = len(self._messages)

    def _count(self, parts: Collection[Json], names: tuple[str, str, str, str]) -> None:
        """Takes the sum of parts as the usage of the run. Names: as ``_PARTS``."""
        usage = self._reading.usage
        fresh, created, cached, output = (sum(whole(part.get(name)) for part in parts) for name in names)
        usage.input_tokens, usage.cached_input_tokens = fresh + created + cached, cached
        usage.output_tokens = output

    def _result(self, event: Json) -> None:
        reading, kind = self._reading, event.get("subtype")
        reading.finished = True
        reading.success = kind == "success" and not event.get("is_error")
        reading.text = said = words(event.get("result"))
        if reading.success and not said.strip():
            reading.text = self._last[1]
        reading.usage.cost_usd = money(event.get("total_cost_usd"))
        reading.usage.turns = whole(event.get("num_turns")) or reading.usage.turns
        models = [model for model in (event.get("modelUsage") or {}).values() if isinstance(model, dict)]
        of_session = event.get("usage")
        if models and all({"inputTokens", "outputTokens"} & model.keys() for model in models):
            self._count(models, ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens"))
        elif isinstance(of_session, dict) and any(whole(of_session.get(part)) for part in _PARTS):
            self._count((of_session,), _PARTS)
        for denied in event.get("permission_denials") or ():
            self.deny(f"{denied.get('tool_name')} {next(iter((denied.get('tool_input') or {}).values()), '')}")
        if reading.success:
            self.forgive()
            return
        said = "; ".join(map(str, event.get("errors") or ())) or said or str(kind)
        aborted = "abort" in str(event.get("terminal_reason")) or "interrupt" in said.lower()
        trouble: Trouble | None = "limit" if kind in _LIMITS else None
        if aborted and not event.get("api_error_status"):
            trouble = "interrupted"
        self.failed(said, event.get("api_error_status"), trouble)
        self.show("ended:", said)
