"""What is cut of values that have no room in the context, and what is kept of them: against plain models."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from coordinator.toolsets.gateway.rules.results import (
    MAX_BEGINNING,
    MAX_CONTEXT,
    MAX_KEPT,
    MOST_KEPT,
    KeptValue,
    Whole,
    arranged,
    cut_to_fit,
    page,
)
from tests.gateway.lab import Json

SIZES = st.sampled_from([0, 30, 3_000, 10_000, 17_000, 60_000, 120_000, 255_000, 261_000, 300_000])


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


@st.composite
def values(draw: st.DrawFn) -> Any:
    """A value of about a size, of characters that take one byte, more, or a backslash."""
    letter = draw(st.sampled_from(["x", '"', "\\", "\n", "\u0001", "\u00e9", "\U0001f600", "x\u00e9"]))
    text = letter * (draw(SIZES) // len(encoded(letter)))
    return draw(st.sampled_from([text, [text], {"stdout": text, "exitCode": 0}]))


@st.composite
def contexts(draw: st.DrawFn) -> tuple[Json, list[str]]:
    """A context that is too large, and the keys that were just written."""
    written = {f"w{n}": draw(values()) for n in range(draw(st.integers(1, 6)))}
    before = "x" * min(draw(SIZES), MAX_CONTEXT)
    context = {"before": before, **written}
    if len(encoded(context)) <= MAX_CONTEXT:
        context["w0"] = "x" * 300_000
    return context, list(written)


def beginning(value: Any) -> str:
    return encoded(value)[:MAX_BEGINNING].decode(errors="ignore")


def model(context: Json, written: list[str]) -> tuple[Json, list[str]]:
    """The context with the largest values cut, one after the other; and which, in this order."""
    context, cut = dict(context), []
    while len(encoded(context)) > MAX_CONTEXT:
        left = [key for key in written if key not in cut]
        if not left:
            break
        largest = max(left, key=lambda key: len(encoded(context[key])))
        whole = encoded(context[largest])
        short = {"truncated": True, "bytes": len(whole), "beginning": beginning(context[largest])}
        if len(encoded(short)) >= len(whole):
            break
        context[largest] = short
        cut.append(largest)
    return context, cut


@given(contexts())
def test_the_largest_written_values_are_cut(given: tuple[Json, list[str]]) -> None:
    context, written = given
    fitted, changes = cut_to_fit(context, written)
    expected, cut = model(context, written)
    assert list(changes) == cut
    assert fitted.keys() == context.keys()
    for key, whole in changes.items():
        assert whole == Whole(len(encoded(context[key])), encoded(context[key]).decode(), "")
    if len(encoded(expected)) <= MAX_CONTEXT:
        assert fitted == expected
        return
    # All are cut: their beginnings are cut further, those of the largest first, as far as needed.
    shorter = [key for key in cut if fitted[key] != expected[key]]
    assert shorter == cut[: len(shorter)]
    assert fitted == {**expected, **{key: {**expected[key], "beginning": fitted[key]["beginning"]} for key in shorter}}
    assert all(beginning(context[key]).startswith(fitted[key]["beginning"]) for key in shorter)
    assert all(fitted[key]["beginning"] == "" for key in shorter[:-1])
    room = MAX_CONTEXT - len(encoded(fitted))
    if room < 0:
        assert all(fitted[key]["beginning"] == "" for key in cut)
    else:
        shown = fitted[shorter[-1]]["beginning"]
        following = beginning(context[shorter[-1]])[len(shown)]
        assert len(encoded(following)) - 2 > room, "one more character would have fitted"


def test_values_are_cut_at_characters_and_kept_up_to_a_size() -> None:
    fitted, changes = cut_to_fit({"a": "\U0001f600" * 100_000, "b": 1}, ["a"])
    shown = fitted["a"]["beginning"]
    assert shown == '"' + "\U0001f600" * ((MAX_BEGINNING - 1) // 4)
    assert fitted["b"] == 1
    largest = "x" * (MAX_KEPT - 2)
    fitted, changes = cut_to_fit({"a": largest}, ["a"])
    assert changes["a"] == Whole(MAX_KEPT, f'"{largest}"', "")
    assert fitted["a"].keys() == {"truncated", "bytes", "beginning"}
    fitted, changes = cut_to_fit({"a": largest + "x"}, ["a"])
    assert changes == {"a": None}
    assert fitted["a"] == {
        "truncated": True,
        "bytes": MAX_KEPT + 1,
        "beginning": '"' + "x" * (MAX_BEGINNING - 1),
        "kept": False,
    }


def test_a_value_that_was_cut_keeps_its_size() -> None:
    # By a flow, to much more than is shown here: that is kept.
    cut = {"truncated": True, "bytes": 5_000_000, "beginning": '"' + "\\" * 500_000}
    fitted, changes = cut_to_fit({"a": cut}, ["a"])
    assert fitted["a"] == {**cut, "beginning": '"' + "\\" * (MAX_BEGINNING - 1)}
    assert changes["a"] == Whole(5_000_000, encoded(cut).decode(), "")
    # Here, and copied to another key.
    again, changes = cut_to_fit({"before": "x" * 250_000, "b": fitted["a"]}, ["b"])
    assert (again["b"]["bytes"], changes) == (5_000_000, {})
    assert fitted["a"]["beginning"].startswith(again["b"]["beginning"])
    assert len(encoded(again)) <= MAX_CONTEXT


def test_images_and_sounds_are_kept_beside_the_text() -> None:
    image = {"type": "image", "data": "iVBOR" * 60_000, "mimeType": "image/png", "annotations": {"priority": 1}}
    sound = {"type": "audio", "data": "UklGR" * 10, "mimeType": "audio/wav"}
    text = {"type": "text", "text": 'an "image"'}
    value = {"content": [text, image, sound, {"type": "image", "data": 1}]}
    fitted, changes = cut_to_fit({"shot": value, "n": 1}, ["shot", "n"])
    whole = changes["shot"]
    assert whole is not None
    assert json.loads(whole.media) == [{key: image[key] for key in ("type", "data", "mimeType")}, sound]
    told = json.loads(whole.text)
    assert [one.get("data") for one in told["content"]] == [
        None,
        "(content[1] of the answer with offset 0)",
        "(content[2] of the answer with offset 0)",
        1,
    ]
    assert told["content"][1] == {**image, "data": told["content"][1]["data"]}
    # The beginning is one of the JSON, without a part of a picture that is good for nothing.
    assert fitted["shot"] == {
        "truncated": True,
        "bytes": len(encoded(value)),
        "beginning": encoded(value).decode().partition("iVBOR")[0],
    }


texts = st.text("ab\u00e9", min_size=1, max_size=3)
wholes = st.one_of(st.none(), st.builds(Whole, st.integers(1, 9), texts, st.sampled_from(["", "[1]"])))
hops = st.lists(st.dictionaries(st.sampled_from("abcdefg"), wholes, min_size=1, max_size=6), max_size=8)


@given(hops)
def test_the_last_values_are_kept(hops: list[dict[str, Whole | None]]) -> None:
    kept: list[KeptValue] = []
    stored: dict[int, str] = {}
    model: dict[str, tuple[Whole, int]] = {}
    for version, changes in enumerate(hops):
        kept, written = arranged(kept, changes, version)
        for place, text in written:
            if text:
                stored[place] = text
            else:
                del stored[place]
        for key, whole in changes.items():
            model.pop(key, None)
            if whole is not None:
                model[key] = whole, version
        model = dict(list(model.items())[-MOST_KEPT:])
        assert [(one.key, one.bytes, one.version) for one in kept] == [
            (key, whole.bytes, since) for key, (whole, since) in model.items()
        ]
        assert stored.keys() == {one.place for one in kept}
        assert stored.keys() <= set(range(1, MOST_KEPT + 1))
        for one in kept:
            whole, there = model[one.key][0], stored[one.place].encode()
            assert there[: one.text].decode() == whole.text
            assert there[one.text : one.text + one.media].decode() == whole.media


@given(st.text('ab"\\\u00e9\U0001f600', min_size=1, max_size=60), st.integers(2, 20), st.data())
def test_pages_make_up_the_text(text: str, room: int, data: st.DataObject) -> None:
    whole = text.encode()
    offset, read = 0, ""
    while offset < len(whole):
        skipped, part = page(whole[offset : offset + room + 10], room)
        assert skipped == 0
        assert part
        assert len(part) == 1 or len(encoded(part)) - 2 <= room
        offset, read = offset + len(part.encode()), read + part
    assert read == text
    # Also from the middle of a character.
    start = data.draw(st.integers(0, len(whole) - 1))
    skipped, part = page(whole[start:], 1000)
    assert (whole[start + skipped :].decode(), skipped < 4) == (part, True)
