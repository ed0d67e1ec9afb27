"""Events of ``opencode run --format json``."""

from __future__ import annotations

from coordinator.runner.readers.lines import EventReader, Json, money, whole, words
from coordinator.runner.readers.troubles import wait_of


class OpencodeReader(EventReader):
    """Reads opencode. It has no final event: a step that finished for another reason than tool calls is the
    last one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._counted: set[str] = set()

    def event(self, event: Json) -> None:
        reading, part = self._reading, event.get("part") or {}
        reading.session = words(event.get("sessionID")) or reading.session
        match event.get("type"):
            case "step_start":
                reading.finished, reading.success = False, None
            case "text":
                reading.text = words(part.get("text")) or reading.text
                self.show(part.get("text"))
            case "tool_use":
                self._tool(part)
            case "step_finish":
                self._finished(part)
            case "error":
                error = event.get("error") or {}
                data = error.get("data") or {}
                reading.finished, reading.success = True, False
                self.failed(data.get("message") or error.get("name") or "the run failed", data.get("statusCode"))
                reading.retry_after_seconds = reading.retry_after_seconds or wait_of(str(data.get("responseHeaders")))
                self.show("failed:", reading.error)

    def _tool(self, part: Json) -> None:
        state = part.get("state") or {}
        self.show(part.get("tool"), state.get("title") or next(iter((state.get("input") or {}).values()), ""))
        error = str(state.get("error") or "")
        if state.get("status") == "error" and ("permission" in error.lower() or "rejected" in error.lower()):
            self.deny(f"{part.get('tool')}: {error}")

    def _finished(self, part: Json) -> None:
        reading = self._reading
        reading.finished = part.get("reason") not in ("tool-calls", "unknown")
        reading.success = part.get("reason") not in ("error", "length", "content-filter") if reading.finished else None
        if reading.success is False:
            self.failed(f"the model stopped: {part.get('reason')}", trouble="limit")
        elif reading.success:
            self.forgive()
        key = str(part.get("id") or len(self._counted))
        if key in self._counted:
            return
        self._counted.add(key)
        usage, tokens = reading.usage, part.get("tokens") or {}
        cached = whole((tokens.get("cache") or {}).get("read"))
        fresh = whole(tokens.get("input")) + whole((tokens.get("cache") or {}).get("write"))
        usage.input_tokens = (usage.input_tokens or 0) + fresh + cached
        usage.cached_input_tokens = (usage.cached_input_tokens or 0) + cached
        usage.output_tokens = (usage.output_tokens or 0) + whole(tokens.get("output")) + whole(tokens.get("reasoning"))
        usage.turns = (usage.turns or 0) + 1
        if (cost := money(part.get("cost"))) is not None:
            usage.cost_usd = (usage.cost_usd or 0.0) + cost
