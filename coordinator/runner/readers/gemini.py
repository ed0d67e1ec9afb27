"""Events of ``gemini -o stream-json``; its ``json`` format is one object with the answer."""

from __future__ import annotations

import msgspec

from coordinator.runner.readers.lines import EventReader, Json, whole, words


class GeminiReader(EventReader):
    """Reads Gemini CLI. It tells no cost. Errors before the first event are on standard error, as an object or
    as text.
    """

    def __init__(self) -> None:
        super().__init__()
        self._object: list[bytes] = []
        """Lines of an object on standard error that is not closed yet."""
        self._before_tool = False
        """Whether the text is from before the last tool: what follows it takes its place, if something does."""

    def event(self, event: Json) -> None:
        reading = self._reading
        match event.get("type"):
            case "init":
                reading.session, reading.usage.model = (
                    words(event.get("session_id")) or None,
                    words(event.get("model")) or None,
                )
                self.show("started", event.get("model"))
            case "message":
                if event.get("role") != "user":
                    content = str(event.get("content") or "")
                    if not self._before_tool:
                        reading.text = reading.text + content if event.get("delta") else content
                    elif content.strip():
                        reading.text, self._before_tool = content, False
                    self.show(content)
            case "tool_use":
                self._before_tool = True
                self.show(event.get("tool_name"), next(iter((event.get("parameters") or {}).values()), ""))
            case "tool_result":
                if event.get("status") == "error":
                    self._refused(event.get("error") or {})
            case "error":
                if event.get("severity") != "warning":
                    self.failed(event.get("message"))
                self.show(event.get("message"))
            case "result":
                self._result(event)
            case None if "response" in event or "error" in event:
                reading.session = words(event.get("session_id")) or None
                reading.text = words(event.get("response"))
                self._result({**event, "status": "error" if event.get("error") else "success"})

    def _refused(self, error: Json) -> None:
        said = f"{error.get('type')} {error.get('message')}"
        if any(word in said.lower() for word in ("denied", "not_registered", "not found in registry", "policy")):
            self.deny(error.get("message") or said)

    def _result(self, event: Json) -> None:
        reading, usage, stats = self._reading, self._reading.usage, event.get("stats") or {}
        reading.finished, reading.success = True, event.get("status") == "success"
        usage.input_tokens, usage.output_tokens = None, None
        if "total_tokens" in stats:
            usage.input_tokens = whole(stats.get("input_tokens"))
            usage.output_tokens = whole(stats.get("output_tokens"))
            usage.cached_input_tokens = whole(stats.get("cached"))
        elif models := [model.get("tokens") or {} for model in (stats.get("models") or {}).values()]:
            usage.input_tokens = sum(whole(use.get("prompt")) for use in models)
            usage.cached_input_tokens = sum(whole(use.get("cached")) for use in models)
            usage.output_tokens = sum(whole(use.get("candidates")) + whole(use.get("thoughts")) for use in models)
        if reading.success:
            self.forgive()
        else:
            error = event.get("error") or {}
            self.failed(error.get("message") or reading.error or "the run failed", error.get("code"))

    def noise(self, line: bytes) -> None:
        """Puts the lines of an error object on standard error together."""
        if not self._object and line.strip() != b"{" and not line.startswith(b'{"'):
            return
        self._object = [*self._object[-200:], line]
        try:
            error = msgspec.json.decode(b"\n".join(self._object)).get("error") or {}
        except (msgspec.DecodeError, UnicodeDecodeError):  # not closed yet
            return
        self._object = []
        if error:
            self.failed(error.get("message"), error.get("code"))
