"""Differential fuzz: the same request to the front with and without its fast path.

Requests start out valid, in both protocol eras, and are then mutated: headers, envelope,
arguments, or the bytes of the body. Both fronts must answer with the same status, the same
content type and the same meaning.

    python -m tests.transport.fuzz COUNT [SEED]
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from structlog.testing import capture_logs

from coordinator.transport import FrontEnd
from tests.transport.rig import LEGACY, MODERN, Response, legacy, make_app, meta, modern, send

Headers = list[tuple[bytes, bytes]]

PAGE = "https://console.example"
"""The origin of a page that may call the fronts."""
_DEEP = 40
_ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.0, 1.5, -0.0, 1e300, 2**53, 2**70, "", " ", "1", "true", "null", "add", "é",
    "\u0000", "\ud83d\ude00", [], [1], {}, {"a": 1}, "x" * 300, "A\\\"B\n",
)  # fmt: skip
_IDS: tuple[Any, ...] = (1, 0, -5, 2**31, 2**63, 2**64 + 1, 10**30, "a", "", "ü\n", "1", None, True, 1.0, 1.5, [1], {})
_NAMES = ("add", "echo", "nothing", "fail", "broken", "tree", "Add", "nope", "", "add ", "workflow.get")


@dataclass
class Case:
    """One request, and its mutations."""

    method: str
    path: str
    headers: Headers
    body: bytes
    bent: list[str] = field(default_factory=list)


class Generator:
    """Generates cases, deterministically by seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def case(self) -> Case:
        """The next case."""
        pick = self._random
        self._modern = pick.random() < 0.5
        tool, arguments = self._call()
        message: dict[str, Any] = {"name": tool}
        if arguments is not None:
            message["arguments"] = arguments
        if self._modern:
            message["_meta"] = self._meta()
            headers, body = modern("tools/call", message, pick.choice(_IDS[:4]))
        else:
            if pick.random() < 0.4:
                message["_meta"] = {
                    **pick.choice(({}, {"progressToken": 7}, {"progressToken": "p"}, {"traceparent": "00"})),
                    **self._of_host(),
                }
            version = None if pick.random() < 0.2 else pick.choice(LEGACY)
            headers, body = legacy("tools/call", message, pick.choice(_IDS[:4]), version)
        raw = [(name.encode(), value.encode()) for name, value in headers]
        if pick.random() < 0.7:
            raw += [(b"connection", b"keep-alive"), (b"user-agent", b"fuzz/1"), (b"accept-encoding", b"gzip, deflate")]
        pick.shuffle(raw)
        case = Case("POST", pick.choice(("/mcp", "/mcp/rig", "/p/p1/mcp", "/mcp/")), raw, body)
        for _ in range(pick.choices((0, 1, 2, 3), (38, 44, 13, 5))[0]):
            bend = pick.choice(_BENDS)
            bend(self, case)
            case.bent.append(bend.__name__.strip("_"))
        return case

    # --- valid requests

    def _call(self) -> tuple[str, Any]:
        pick = self._random
        tool = pick.choice(("add", "add", "echo", "echo", "nothing", "fail", "tree", "broken"))
        if tool == "add":
            given: Any = {"left": pick.randint(-1000, 1000)}
            if pick.random() < 0.5:
                given["right"] = pick.choice((0, 2, -3, 10**12, 2**65))
        elif tool == "echo":
            given = {"text": pick.choice(("", "x", "ünï\n\u2028", "\U0001f600", '\\"/', "a" * 500))}
            for name, values in {
                "mode": ("plain", "loud", "odd"),
                "note": (None, "", "n"),
                "flag": (True, False),
                "count": (0, -7, 2**60),
                "parts": ([], [{"name": "p"}], [{"name": "q", "weight": 2}, {"name": "r", "weight": 0.25}]),
            }.items():
                if pick.random() < 0.4:
                    given[name] = pick.choice(values)
        elif tool == "fail":
            given = {"code": pick.choice(("conflict", "over_capacity", "RESOURCE_NOT_FOUND", "store_unavailable"))}
            if pick.random() < 0.5:
                given["retryAfterMs"] = pick.choice((0, 1, 999, 1001, 60_000, None))
        elif tool == "tree":
            given = {"name": "root", "children": [{"name": "leaf", "data": pick.choice((None, [1, {"b": []}], 1.5))}]}
        else:
            given = pick.choice((None, {}))
        return tool, given

    def _meta(self) -> dict[str, Any]:
        pick = self._random
        made = meta()
        for name, values in {
            "progressToken": (1, "t", 0),
            "io.modelcontextprotocol/logLevel": ("debug", "emergency"),
            "traceparent": ("00-abc-def-01",),
        }.items():
            if pick.random() < 0.2:
                made[name] = pick.choice(values)
        if pick.random() < 0.2:
            made["io.modelcontextprotocol/clientCapabilities"] = pick.choice(
                ({"sampling": {}}, {"elicitation": {"form": {}}}, {"roots": {}, "extensions": {"x/y": {}}})
            )
        if pick.random() < 0.2:
            del made["io.modelcontextprotocol/clientInfo"]
        elif pick.random() < 0.2:
            made["io.modelcontextprotocol/clientInfo"]["x-build"] = pick.choice((5, [], {"a": None}))
        return {**made, **self._of_host()}

    def _of_host(self) -> dict[str, Any]:
        """Host-specific keys in ``_meta``."""
        pick = self._random
        if pick.random() < 0.5:
            return {}
        keys = ("claudecode/toolUseId", "x-codex-turn-metadata", "threadId", "com.example/x", "", "name", "progress")
        values = (*_ODD_VALUES[:13], "\U0001f600", {"turn": {"id": pick.random(), "tags": ["a", {}]}}, "x" * 5000)
        return {key: pick.choice(values) for key in pick.sample(keys, pick.randint(1, 3))}

    # --- mutating headers

    def _drop_header(self, case: Case) -> None:
        if case.headers:
            case.headers.pop(self._random.randrange(len(case.headers)))

    def _repeat_header(self, case: Case) -> None:
        if case.headers:
            name, value = self._random.choice(case.headers)
            other = self._random.choice((value, value + b"x", b"", b"2025-06-18", b"add"))
            case.headers.insert(self._random.randrange(len(case.headers) + 1), (name, other))

    def _pad_header(self, case: Case) -> None:
        if case.headers:
            at = self._random.randrange(len(case.headers))
            name, value = case.headers[at]
            case.headers[at] = (name, self._random.choice((b" %b", b"%b ", b"\t%b\t ", b"  %b")) % value)

    def _change_header(self, case: Case) -> None:
        names = {
            b"host": (b"localhost", b"127.0.0.1", b"evil.example", b"[::1]:1", b"LOCALHOST:9", b"", b"127.0.0.1:x"),
            b"accept": (
                b"*/*", b"application/json", b"text/event-stream", b"application/*, text/*", b"", b"text/html",
                b"application/json;q=0.5,text/event-stream", b"Application/JSON, TEXT/event-stream",
                b"application/json;q=0, */*", b"text/*, application/json;q=0.0", b"*/*;q=0", b", ,application/json",
            ),
            b"content-type": (
                b"application/json; charset=utf-8", b"APPLICATION/JSON", b"text/plain", b"", b"application/jsonx",
                b"application/json;charset=utf-8", b"application/json, text/plain", b"application/json;",
                b'Application/JSON; Charset="UTF-8"', b"application/json ; profile=a;charset=x",
            ),
            b"mcp-protocol-version": (
                MODERN.encode(), *(version.encode() for version in LEGACY), b"2024-11-05", b"1900-01-01", b"", b"x",
            ),
            b"mcp-method": (b"tools/list", b"Tools/call", b"", b"tools/call", b"ping"),
            b"mcp-name": (
                b"add", b"echo", b"", b"ADD", b"=?base64?YWRk?=", b"=?base64?YWR?=", b"=?base64?x", b"\xff",
                b"=?base64?" + base64.b64encode(b"echo") + b"?=",
            ),
        }  # fmt: skip
        name = self._random.choice(list(names))
        value = self._random.choice(names[name])
        case.headers = [(one, value if one == name else old) for one, old in case.headers]
        if name not in dict(case.headers):
            case.headers.append((name, value))

    def _add_header(self, case: Case) -> None:
        case.headers.append(
            self._random.choice(
                (
                    (b"origin", PAGE.encode()), (b"origin", PAGE.upper().encode()), (b"origin", b"https://evil.example"),
                    (b"origin", b"http://127.0.0.1:8420"), (b"access-control-request-method", b"POST"),
                    (b"origin", b"null"), (b"origin", b""), (b"mcp-session-id", b"s1"), (b"mcp-param-left", b"3"),
                    (b"mcp-new", b"1"),
                    (b"last-event-id", b"4"), (b"authorization", b"Bearer x"), (b"x-request-id", b"given-1"),
                    (b"x-request-id", b"bad id\x7f"), (b"traceparent", b"00-1-2-01"), (b"cookie", b"c" * 3000),
                    (b"x-large", b"y" * 20_000), (b"content-length", b"99999999"), (b"content-length", b"x"),
                    (b"content-encoding", b"gzip"), (b"connection", b"close"), (b"accept-language", b"de"),
                )
            )
        )  # fmt: skip

    def _change_method_or_path(self, case: Case) -> None:
        if self._random.random() < 0.5:
            case.method = self._random.choice(("GET", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"))
        else:
            case.path = self._random.choice(
                ("/mcp/nope", "/mcp/rig,flows", "/mcp/rig,gateway", "/p/BAD/mcp", "/p/p2/mcp/rig", "/x", "/mcp/rig,rig")
            )

    # --- mutating the message

    def _edit(self, case: Case, change: Callable[[dict[str, Any]], None]) -> None:
        try:
            message = json.loads(case.body)
        except (ValueError, RecursionError):
            return
        if isinstance(message, dict):
            change(message)
            # Surrogates are escaped, so that both kinds of body occur.
            case.body = json.dumps(message, ensure_ascii=self._random.random() < 0.5).encode(errors="surrogatepass")

    def _inside(self, message: dict[str, Any], *path: str) -> Any:
        node: Any = message
        for name in path:
            node = node.get(name) if isinstance(node, dict) else None
        return node

    def _change_id(self, case: Case) -> None:
        self._edit(case, lambda message: message.update(id=self._random.choice(_IDS)))

    def _change_top(self, case: Case) -> None:
        key, values = self._random.choice(
            (
                ("jsonrpc", ("1.0", 2.0, None)), ("method", ("tools/list", "ping", "nope", None, 5, "initialize")),
                ("params", (None, [], 1, {})), ("extra", (1,)), ("result", ({},)), ("error", ({},)), ("ID", (1,)),
            )
        )  # fmt: skip
        self._edit(case, lambda message: message.update({key: self._random.choice(values)}))

    def _drop_top(self, case: Case) -> None:
        key = self._random.choice(("jsonrpc", "id", "method", "params"))
        self._edit(case, lambda message: message.pop(key, None))

    def _change_params(self, case: Case) -> None:
        key, values = self._random.choice(
            (
                ("name", (*_NAMES, None, 5)), ("arguments", (None, [], "x", 1, {})), ("task", ({}, {"ttl": 5}, None)),
                ("requestState", ("s", None, 5)), ("inputResponses", ({}, None, {"a": {"action": "accept"}})),
                ("extra", (1,)), ("_meta", (None, {}, [], 1)),
            )
        )  # fmt: skip

        def change(message: dict[str, Any]) -> None:
            if isinstance(message.get("params"), dict):
                message["params"][key] = self._random.choice(values)

        self._edit(case, change)

    def _change_argument(self, case: Case) -> None:
        def change(message: dict[str, Any]) -> None:
            given = self._inside(message, "params", "arguments")
            if isinstance(given, dict):
                name = self._random.choice([*given, "left", "text", "parts", "data", "extra", "retryAfterMs"])
                if self._random.random() < 0.25:
                    given.pop(name, None)
                elif self._random.random() < 0.3:
                    # Some hosts encode arrays and objects like this.
                    given[name] = json.dumps(given.get(name)) + self._random.choice(("", "", " ", "x"))
                else:
                    given[name] = self._random.choice(_ODD_VALUES)

        self._edit(case, change)

    def _change_meta(self, case: Case) -> None:
        odd: dict[str, tuple[Any, ...]] = {
            "io.modelcontextprotocol/protocolVersion": (MODERN, "2025-11-25", "9999-01-01", None, 5),
            "io.modelcontextprotocol/clientCapabilities": (None, [], {"sampling": 5}, {"unknown": {}}, {"roots": {}}),
            "io.modelcontextprotocol/clientInfo": (None, {}, {"name": "n"}, {"name": "n", "version": "1", "x": [1]}),
            "progressToken": (None, 1.0, 1.5, True, "", [], 2**70),
            "io.modelcontextprotocol/logLevel": ("info", "loud", None, 5),
            "traceparent": (None, 5, "x"),
            "com.example/other": (1, {"a": []}),
        }

        def change(message: dict[str, Any]) -> None:
            params = message.get("params")
            if isinstance(params, dict):
                name = self._random.choice(list(odd))
                held = params.setdefault("_meta", {})
                if isinstance(held, dict):
                    held[name] = self._random.choice(odd[name])
                    if self._random.random() < 0.3:
                        held.pop(self._random.choice(list(held)))

        self._edit(case, change)

    # --- mutating bytes

    def _spoil_host_key(self, case: Case) -> None:
        """A value of a host-specific key that not every parser accepts."""
        levels = self._random.choice((55, 58, 59, 60, 61, 62, 63, 64, 65, 300))
        odd = (
            b"NaN", b"-Infinity", b"1E400", b"9" * 400, b"9" * 5000, b"-" + b"9" * 4200, b"01", b"1.", b".5", b"tru",
            b'"\\ud800"', b'"\\udc00"', b'"\\ud83d\\ude00"', b'"\\udc00\\ud800"', b'"\\u00"', b'"\x01"',
            b'"\xff"', b'"\xed\xa0\x80"', b'"\xc3\xa9"', b'[1,]', b'{"a":1,}', b'{"a":1,"a":2}', b"{1:2}",
            b"[" * levels + b"]" * levels, b'{"a":' * levels + b"1" + b"}" * levels, b'"' + b"[" * 300 + b'"',
        )  # fmt: skip
        key = self._random.choice((b"threadId", b"\xc3\xa9", b"\xff", b"\\ud800", b"a\\/b", b"a\\u0000"))
        field = b'"_meta":{"%b":%b,' % (key, self._random.choice(odd))
        case.body = case.body.replace(b'"_meta":{', field.rstrip(b",") if b'"_meta":{}' in case.body else field, 1)

    def _repeat_key(self, case: Case) -> None:
        """A duplicate key: parsers have to agree on which value counts."""
        keys = re.findall(rb'"(\w+)":', case.body)
        if keys:
            key = self._random.choice(keys)
            value = self._random.choice((b"1", b'"add"', b"null", b"{}", b'"tools/call"', b'"2.0"'))
            before = b'"%b":%b,"%b":' % (key, value, key)
            case.body = case.body.replace(b'"%b":' % key, before, 1)

    def _disturb_bytes(self, case: Case) -> None:
        pick = self._random
        at = pick.randrange(len(case.body) + 1)
        change = pick.choice(("flip", "cut", "insert", "insert", "escape", "before", "after"))
        if change == "flip" and at < len(case.body):
            case.body = case.body[:at] + bytes([pick.randrange(256)]) + case.body[at + 1 :]
        elif change == "cut":
            case.body = case.body[:at]
        elif change == "insert":
            odd = (
                b" ",
                b"\n",
                b"\t",
                b"\x00",
                b"\x01",
                b"\xff",
                b"\xed\xa0\x80",
                b"\\ud800",
                b"\\u0041",
                b",",
                b"1",
                b"NaN",
            )
            case.body = case.body[:at] + pick.choice(odd) + case.body[at:]
        elif change == "escape":
            letter = pick.choice((b"a", b"t", b"m", b"p", b"n"))
            case.body = case.body.replace(letter, b"\\u%04x" % letter[0], pick.choice((1, 3)))
        elif change == "before":
            case.body = pick.choice((b"\xef\xbb\xbf", b" \n", b"\xff\xfe", b"[", b"\x0b")) + case.body
        else:
            case.body += pick.choice((b" ", b"\n\r\t", b"x", b"}", b"{}", b"\x00", b"\x0c"))

    def _odd_number(self, case: Case) -> None:
        odd = (
            b"1.0",
            b"1e2",
            b"-0",
            b"01",
            b"1.",
            b"+1",
            b"Infinity",
            b"-NaN",
            b"1E400",
            b"9" * 25,
            b"9" * 5000,
            b"1e-400",
        )
        case.body = re.sub(rb":(-?\d+)", b":" + self._random.choice(odd), case.body, count=1)

    def _nest(self, case: Case) -> None:
        levels = self._random.choice((3, _DEEP, 58, 59, 60, 61, 62, 63, 64, 65, 200, 3000))
        deep = b"[" * levels + b"]" * levels
        where = self._random.choice(
            (b'"data":', b'"text":', b'"left":', b'"_meta":', b'"clientCapabilities":', b'"id":')
        )
        if where in case.body:
            case.body = case.body.replace(where, where + deep + b',"x":', 1)
        else:
            tree = b'{"name":"n","data":' + deep + b"}"
            case.body = re.sub(rb'"arguments":\{[^{}]*\}', b'"arguments":' + tree, case.body, count=1)

    def _other_body(self, case: Case) -> None:
        case.body = self._random.choice(
            (b"", b"null", b"[]", b"1", b'"x"', b"[" + case.body + b"]", b"{}", b"[" * 100_000)
        )


_BENDS: tuple[Callable[[Generator, Case], None], ...] = (
    Generator._drop_header, Generator._repeat_header, Generator._pad_header, Generator._change_header,
    Generator._change_header, Generator._add_header, Generator._add_header, Generator._change_method_or_path,
    Generator._change_id, Generator._change_top, Generator._drop_top, Generator._change_params,
    Generator._change_argument, Generator._change_argument, Generator._change_meta, Generator._change_meta,
    Generator._spoil_host_key, Generator._spoil_host_key,
    Generator._repeat_key, Generator._disturb_bytes, Generator._odd_number, Generator._nest, Generator._other_body,
)  # fmt: skip


@dataclass
class Report:
    """The result of a run."""

    cases: int = 0
    hits: int = 0
    """Answered by the fast path."""
    differences: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        share = self.hits / self.cases if self.cases else 0
        return f"{self.cases} requests, {share:.1%} by the fast path, {len(self.differences)} differences"


_REQUEST_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]+")


def meaning(response: Response) -> tuple[Any, ...]:
    """The parts of an answer that must be the same on both paths."""
    body: Any = _REQUEST_ID.sub(b"ID", response.plain)
    if response.content_type == "application/json" and body:
        body = json.loads(body)
    named = (
        "retry-after",
        "allow",
        "connection",
        "content-encoding",
        "vary",
        "access-control-allow-origin",
        "access-control-max-age",
    )
    headers = {name: response.headers.get(name) for name in named}
    return response.status, response.content_type, body, headers, "x-request-id" in response.headers


async def run(count: int, seed: int, progress: Callable[[Report], None] | None = None) -> Report:
    """Sends ``count`` requests to both fronts.

    Args:
        progress: called after every thousandth.
    """
    generator, report = Generator(seed), Report()
    fast, slow = [make_app(fast=fast, with_settings={"allowed_origins": (PAGE,)}) for fast in (True, False)]
    with contextlib.ExitStack() as quiet:
        # One of the tools is intentionally broken, which is logged each time.
        quiet.enter_context(capture_logs())
        logging.disable()
        quiet.callback(logging.disable, logging.NOTSET)
        for number in range(1, count + 1):
            case = generator.case()
            left, right = [await _answer(app, case) for app in (fast, slow)]
            report.cases += 1
            report.statuses[left.status] += 1
            if meaning(left) != meaning(right):
                report.differences.append(f"{case}\n  fast: {left}\n  sdk:  {right}")
            report.hits = fast.fast_path.counts["hit"]
            if progress is not None and number % 1000 == 0:
                progress(report)
    report.reasons = fast.fast_path.counts
    await fast.stop()
    await slow.stop()
    return report


async def _answer(app: FrontEnd, case: Case) -> Response:
    return await send(app, case.method, case.path, case.headers, case.body)


def main() -> None:
    """Runs from the command line; the exit code is 1 if there were differences."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    report = asyncio.run(run(count, seed, lambda report: print(report, flush=True)))
    print(report, dict(report.statuses), dict(report.reasons), *report.differences[:20], sep="\n")
    sys.exit(bool(report.differences))


if __name__ == "__main__":
    main()
