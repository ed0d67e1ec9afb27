"""Tools for steps of workflows: a plain function runs in a process of its own, a coroutine function in the worker."""

from __future__ import annotations

import asyncio
from typing import Any


def word_count(text: str) -> dict[str, int]:
    """Counts words and letters. What it returns is the result of the step, as JSON."""
    return {"words": len(text.split()), "letters": sum(letter.isalpha() for letter in text)}


async def publish(title: str, counts: dict[str, int], idempotency_key: str) -> dict[str, Any]:
    """Would hand a text to another system, with the key that all attempts of the step share."""
    await asyncio.sleep(0)
    return {"title": title, "words": counts["words"], "key": idempotency_key}
