"""Specifications of flows that fork and join."""

from __future__ import annotations

from typing import Any

from tests.flows.programs import Json


def step(name: str, **more: Any) -> Json:
    return {"name": name, "tool": "give", **more}


def end(name: str, **more: Any) -> Json:
    return step(name, done=True, **more)


FORK: Json = {
    "start": {"name": "fork", "tool": None, "parallel": ["a", "b"]},
    "a": step("a", join="end"),
    "b": step("b", join="end"),
    "end": end("end"),
}
RIGHT: dict[str, Json] = {
    "fork": FORK,
    "fork of one": {"start": step("s", parallel=["a"]), "a": step("a", join="end"), "end": end("end")},
    "alternatives meet": {
        "start": step("s", branch=[{"if": "result == true", "then": "a"}, {"if": "result != nil", "then": "b"}]),
        "a": step("a", next="end"),
        "b": step("b", next="end"),
        "end": end("end"),
    },
    "alternatives end apart": {
        "start": step("s", branch=[{"if": "result == true", "then": "a"}, {"if": "result == nil", "then": "b"}]),
        "a": end("a"),
        "b": end("b"),
    },
    "a choice around a fork": {
        **FORK,
        "start": step("s", branch=[{"if": "result == true", "then": "fork"}, {"if": "result == nil", "then": "end"}]),
        "fork": {"name": "f", "tool": None, "parallel": ["a", "b"]},
    },
    "a choice within a branch": FORK
    | {
        "a": step("a", branch=[{"if": "result == true", "then": "c"}, {"if": "result == nil", "then": "d"}]),
        "c": step("c", join="end"),
        "d": step("d", join="end"),
    },
    "two forks with one join": {
        "start": step("s", branch=[{"if": "result == true", "then": "f"}, {"if": "result == nil", "then": "g"}]),
        "f": step("f", parallel=["a"]),
        "g": step("g", parallel=["b"]),
        "a": step("a", join="end"),
        "b": step("b", join="end"),
        "end": end("end"),
    },
    "names that are no keys": {"start": step("first", next="k"), "k": end("second")},
    "null for what is not used": {"start": end("s", next=None, branch=None, retry=None, args=None)},
    "a key with blanks": {"start": step("s", next="my step"), "my step": end("my step")},
}
