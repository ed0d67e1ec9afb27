"""Readers of what agents print: one per command line whose events we know, and one for any other.

Each follows ``protocols.Reader``. They take what is known of the events and pass over the rest, because these
formats change weekly. ``lines`` has what they share, ``troubles`` what providers say when they refuse.
"""

from coordinator.runner.readers.claude import ClaudeReader
from coordinator.runner.readers.codex import CodexReader
from coordinator.runner.readers.gemini import GeminiReader
from coordinator.runner.readers.lines import PlainReader
from coordinator.runner.readers.opencode import OpencodeReader

__all__ = ["ClaudeReader", "CodexReader", "GeminiReader", "OpencodeReader", "PlainReader"]
