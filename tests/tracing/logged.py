"""Log lines of this process, and the spans that they name."""

from __future__ import annotations

import io
import json
import logging
from typing import Self

import structlog

from coordinator.metrics import logs


class Logged:
    """Captures log lines until the end of the block."""

    def __enter__(self) -> Self:
        root = logging.getLogger()
        self._before, self._config = (root.handlers[:], root.level), structlog.get_config()
        self._out = io.StringIO()
        logs.configure("info", "json", stream=self._out)
        # Later lines are not captured, whichever loggers were used here.
        structlog.configure(cache_logger_on_first_use=False)
        return self

    def __exit__(self, *_: object) -> None:
        root = logging.getLogger()
        logging.captureWarnings(False)
        root.handlers[:], root.level = self._before
        structlog.configure(**self._config)

    def places(self) -> dict[str, tuple[str, str] | None]:
        """Trace and span by message; None if a line names none."""
        found = [json.loads(line) for line in self._out.getvalue().splitlines()]
        return {line["event"]: (line["trace_id"], line["span_id"]) if "trace_id" in line else None for line in found}
