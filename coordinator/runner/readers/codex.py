"""Events of ``codex exec --json``."""

from __future__ import annotations

from coordinator.runner.readers.lines import EventReader, Json, whole, words


class CodexReader(EventReader):
    """Reads Codex. It tells no cost. An ``error`` is final only if ``turn.failed`` follows: it reports
    reconnecting, too.

    A turn ends with ``turn.completed``, and a run has one turn. A command that its sandbox or policy refuses outright
    leaves no trace but, in some versions, a status ``declined``.
    """

    def event(self, event: Json) -> None:
        reading = self._reading
        match event.get("type"):
            case "thread.started":
                reading.session = words(event.get("thread_id")) or None
            case "turn.started":
                reading.finished, reading.success = False, None
            case "item.started" | "item.updated" | "item.completed":
                self._item(event["item"], completed=event["type"] == "item.completed")
            case "turn.completed":
                reading.finished = reading.success = True
                self._usage(event.get("usage") or {})
                self.forgive()
            case "turn.failed":
                reading.finished, reading.success = True, False
                self.failed((event.get("error") or {}).get("message") or "the turn failed")
                self.show("failed:", reading.error)
            case "error":
                self.failed(event.get("message"))
                self.show(event.get("message"))

    def _item(self, item: Json, *, completed: bool) -> None:
        match item.get("type"):
            case "agent_message":
                self._reading.text = words(item.get("text")) or self._reading.text
                self.show(item.get("text"))
            case "command_execution":
                self.show("$", item.get("command"))
                if completed and item.get("status") == "declined":
                    self.deny(item.get("command"))
            case "file_change":
                self.show("changed", ", ".join(str(change.get("path")) for change in item.get("changes") or ()))
            case "mcp_tool_call":
                self.show(item.get("server"), item.get("tool"))
            case "error":
                self.show(item.get("message"))

    def _usage(self, counts: Json) -> None:
        usage = self._reading.usage
        usage.input_tokens = (usage.input_tokens or 0) + whole(counts.get("input_tokens"))
        usage.cached_input_tokens = (usage.cached_input_tokens or 0) + whole(counts.get("cached_input_tokens"))
        usage.output_tokens = (usage.output_tokens or 0) + whole(counts.get("output_tokens"))
        usage.turns = (usage.turns or 0) + 1
