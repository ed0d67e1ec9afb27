"""tools/list over HTTP: follows the setting, is the same for every client, and is compressed if accepted."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from mcp.client import Client

from coordinator.settings import Settings
from coordinator.toolsets.schema import describe, lean_output_schema
from coordinator.transport import FrontEnd
from coordinator.transport.http.compression import takes_gzip
from coordinator.transport.http.parts import Parts
from tests.support.contracts import toolsets
from tests.transport.live import Live, serving
from tests.transport.nodejs import INSTALL_SECONDS, Node
from tests.transport.rig import FakeStore, Response, Rig, call, legacy, make_app, meta, modern, open_to_all, send

pytestmark = pytest.mark.anyio
LONG = "x" * 2_000


async def listed(app: FrontEnd, request: Any, **headers: str) -> Response:
    head, body = request
    return await send(
        app, headers=[*head, *((name.replace("_", "-"), value) for name, value in headers.items())], body=body
    )


@pytest.mark.parametrize("outputs", ["lean", "full", "none"])
async def test_the_setting_decides_the_output_schemas_in_lists(outputs: Any) -> None:
    rig = Rig()
    app = make_app(rig, with_settings={"output_schemas": outputs})
    expected = [describe(tool, outputs=outputs) for tool in rig.toolset().tools]
    for request in (modern("tools/list"), legacy("tools/list", {})):
        assert (await listed(app, request)).json["result"]["tools"] == expected
    called = (await listed(app, modern("tools/call", call("add", {"left": 1})))).json["result"]
    assert called["structuredContent"] == {"sum": 2}
    assert any("outputSchema" in one for one in expected) == (outputs != "none")
    await app.stop()


async def test_a_list_does_not_depend_on_the_client(app: FrontEnd) -> None:
    found = set()
    for client in ("claude-code", "gemini-cli-mcp-client", "Visual Studio Code", "codex-mcp-client"):
        envelope = {**meta(), "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"}}
        found.add((await listed(app, modern("tools/list", {"_meta": envelope}), user_agent=client)).body)
    assert len(found) == 1


async def test_a_list_is_compressed_for_clients_that_accept_it(app: FrontEnd) -> None:
    plain = await listed(app, modern("tools/list"))
    assert "content-encoding" not in plain.headers
    for request in (modern("tools/list"), legacy("tools/list", {})):
        packed = await listed(app, request, accept_encoding="br;q=1.0, GZIP;q=0.5")
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.headers["vary"] == plain.headers["vary"] == "accept-encoding"
        assert int(packed.headers["content-length"]) == len(packed.body) < len(plain.body) / 2
        assert msgspec.json.decode(gzip.decompress(packed.body))["result"]["tools"] == plain.json["result"]["tools"]


async def test_errors_and_calls_are_not_compressed(app: FrontEnd) -> None:
    for request in (modern("tools/list", {"cursor": "x"}), modern("tools/call", call("echo", {"text": LONG}))):
        answer = await listed(app, request, accept_encoding="gzip")
        assert "content-encoding" not in answer.headers
        assert answer.json["id"] == 1


@pytest.mark.parametrize(
    ("given", "takes"),
    [
        ((), False), (("",), False), (("identity",), False), (("gzip",), True), (("x-gzip",), True), (("*",), True),
        (("gzip;q=0",), False), (("gzip ; Q=0.000",), False), (("gzip;q=0.001",), True), (("*;q=0, gzip",), True),
        (("gzip;q=0, *",), False), (("deflate, br", "zstd, gzip"), True), (("gzipped",), False),
    ],
)  # fmt: skip
async def test_accept_encoding_is_parsed_as_in_the_rfc(given: tuple[str, ...], takes: bool) -> None:
    assert takes_gzip([(b"accept-encoding", value.encode()) for value in given]) == takes


def product() -> FrontEnd:
    """A front over the product's toolsets; its tools cannot be called."""
    settings = Settings()
    return FrontEnd(Parts(settings, FakeStore(), toolsets(), authenticator=open_to_all(settings)))


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with serving(product) as live:
        yield live


@pytest.mark.parametrize("toolset", toolsets())
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_sdks_client_takes_the_lists_of_all_toolsets(live: Live, toolset: str, mode: Any) -> None:
    async with Client(f"{live.url}/{toolset}", mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    for tool in toolsets()[toolset].tools:
        assert tools[tool.name].output_schema == (lean_output_schema(tool.result) if tool.result else None)


@pytest.mark.timeout(INSTALL_SECONDS + 60)
async def test_the_official_client_in_typescript_takes_the_lists_of_all_toolsets(node: Node, live: Live) -> None:
    done = node.run(node.own("lists.mjs"), [f"{live.url}/{name}" for name in toolsets()])
    assert done.returncode == 0, done.stderr
    shown = msgspec.json.decode(done.stdout)
    assert [len(one) for one in shown] == [len(toolset.tools) for toolset in toolsets().values()]
