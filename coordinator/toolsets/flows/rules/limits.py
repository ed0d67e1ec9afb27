"""The largest allowed sizes of a flow and its data."""

from __future__ import annotations

MAX_STEPS = 200
MAX_WIDTH = 50
"""Entries of one ``branch`` or ``parallel``."""
MAX_FLOW_BYTES = 262_144
"""Bytes of a flow, as JSON."""
MAX_INPUT_BYTES = 1_048_576
"""Bytes of the input variables, as JSON."""
MAX_ARGS_BYTES = 4_194_304
"""Bytes of the arguments of one call, as JSON with templates replaced."""
MAX_TOKEN = 500
"""Characters between the braces of a template."""
MAX_NAME = 200
"""Characters of a workflow's name, and of a step's name or key."""
MAX_DELAY_MS = 31_536_000_000
"""The latest start: a year from now."""
MAX_TIMEOUT_MS = 86_400_000
"""The longest time of one attempt: a day."""
DEFAULT_TIMEOUT_MS = 60_000
MAX_ATTEMPTS = 100
