"""A server with all features that the official conformance suite uses, behind the product's front.

Tools that only answer go through the coordinator's own handlers. Features that our tools never use
(streaming, elicitation, prompts, resources) are added to the SDK's server of the endpoint, to show
that the front passes them through unchanged.

    python -m tests.transport.everything PORT
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from msgspec import Meta, Struct

from coordinator.errors import ToolFailure
from coordinator.feed import FeedReader
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.tool import Call, Tool, Toolset
from coordinator.transport import FrontEnd
from coordinator.transport.calls import Calls
from coordinator.transport.endpoints import Endpoint
from coordinator.transport.fast_path.http import http_protocol
from coordinator.transport.http.parts import Parts
from coordinator.transport.mcp.listening import Listening
from coordinator.transport.mcp.server import build_server
from tests.transport.jobs import Jobs, check_declared, seals
from tests.transport.rig import FakeStore, open_to_all

Context = ServerRequestContext[Any, Any]
CallParams = types.CallToolRequestParams
Special = Callable[[Context, CallParams], Awaitable[types.CallToolResult | types.InputRequiredResult]]

IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
AUDIO = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


class NoArguments(Struct, forbid_unknown_fields=True):
    pass


class Region(Struct, forbid_unknown_fields=True):
    region: Annotated[str, Meta(description="Mirrored.", extra_json_schema={"x-mcp-header": "Region"})]


class Answer(Struct):
    answer: Annotated[str, Meta(description="What the tool says.")]


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def _resource(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(
        type="resource", resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    )


_PICTURE = types.ImageContent(type="image", data=IMAGE, mime_type="image/png")

_STATIC: dict[str, list[Any]] = {
    "test_image_content": [_PICTURE],
    "test_audio_content": [types.AudioContent(type="audio", data=AUDIO, mime_type="audio/wav")],
    "test_embedded_resource": [_resource("test://embedded-resource", "text/plain", "Embedded.")],
    "test_multiple_content_types": [
        types.TextContent(type="text", text="Multiple content types test:"),
        _PICTURE,
        _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
}


# --- tools that ask back (input_required) ---------------------------------------------------


def _elicit(message: str, **properties: str) -> types.ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(question: str) -> types.CreateMessageRequest:
    content = types.TextContent(type="text", text=question)
    message = types.SamplingMessage(role="user", content=content)
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


_NAME: types.InputRequests = {"user_name": _elicit("What is your name?", name="string")}
_ASKED: dict[str, types.InputRequests] = {
    "test_input_required_result_elicitation": _NAME,
    "test_input_required_result_sampling": {"capital_question": _sample("What is the capital of France?")},
    "test_input_required_result_list_roots": {"client_roots": types.ListRootsRequest()},
    "test_input_required_result_request_state": {"confirm": _elicit("Sure?", ok="boolean")},
    "test_input_required_result_tampered_state": {"confirm": _elicit("Sure?", ok="boolean")},
    "test_input_required_result_multiple_inputs": {
        **_NAME,
        "greeting": _sample("Greet me."),
        "client_roots": types.ListRootsRequest(),
    },
}
_WITH_STATE = ("request_state", "tampered_state", "multiple_inputs")


async def _ask(_context: Context, params: CallParams) -> types.CallToolResult | types.InputRequiredResult:
    wanted = _ASKED[params.name]
    if set(wanted) <= set(params.input_responses or {}):
        return _text("complete, state-ok" if params.request_state else "complete")
    state = "round-1" if params.name.endswith(_WITH_STATE) else None
    return types.InputRequiredResult(input_requests=wanted, request_state=state)


async def _rounds(_context: Context, params: CallParams) -> types.CallToolResult | types.InputRequiredResult:
    answered = int(params.request_state or 0) if params.input_responses else 0
    if answered >= 2:
        return _text("complete")
    question: types.InputRequests = {f"step{answered + 1}": _elicit("Next?", name="string")}
    return types.InputRequiredResult(input_requests=question, request_state=str(answered + 1))


async def _capable(context: Context, _params: CallParams) -> types.InputRequiredResult:
    declared = context.session.client_capabilities or types.ClientCapabilities()
    asked: types.InputRequests = {}
    if declared.sampling is not None:
        asked["question"] = _sample("Anything?")
    if declared.elicitation is not None:
        asked["name"] = _elicit("Name?", name="string")
    return types.InputRequiredResult(input_requests=asked, request_state="asked")


# --- tools that stream ----------------------------------------------------------------------


async def _logging(context: Context, _params: CallParams) -> types.CallToolResult:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await context.session.send_log_message("info", text, related_request_id=context.request_id)
    return _text("logged")


async def _progress(context: Context, _params: CallParams) -> types.CallToolResult:
    for step in (0, 50, 100):
        await context.session.report_progress(step, 100, f"Completed step {step} of 100")
    return _text("done")


async def _needs_sampling(context: Context, _params: CallParams) -> types.CallToolResult:
    declared = context.session.client_capabilities
    if declared is None or declared.sampling is None:
        required: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Sampling is required", required)
    return _text("sampled")


async def _streaming_elicitation(context: Context, _params: CallParams) -> types.InputRequiredResult:
    await context.session.report_progress(1, 2)
    return types.InputRequiredResult(input_requests=_NAME)


async def _static(_context: Context, params: CallParams) -> types.CallToolResult:
    return types.CallToolResult(content=_STATIC[params.name])


async def _plain(_call: Call, _arguments: Any) -> Answer:
    return Answer("This is a simple text response for testing.")


async def _error(_call: Call, _arguments: Any) -> Answer:
    raise ToolFailure("conflict", "This tool intentionally returns an error for testing")


class Everything:
    """The fixtures and their shared state."""

    def __init__(self) -> None:
        self.changes = 0
        """How often its lists have changed."""
        self.jobs = Jobs()
        self.special: dict[str, Special] = {
            **dict.fromkeys(_STATIC, _static),
            **dict.fromkeys(_ASKED, _ask),
            "test_input_required_result_multi_round": _rounds,
            "test_input_required_result_capabilities": _capable,
            "test_tool_with_logging": _logging,
            "test_logging_tool": _logging,
            "test_tool_with_progress": _progress,
            "test_missing_capability": _needs_sampling,
            "test_streaming_elicitation": _streaming_elicitation,
            "test_trigger_tool_change": self._trigger,
            "test_trigger_prompt_change": self._trigger,
            "json_schema_2020_12_tool": _static,
        }

    def toolset(self) -> Toolset:
        """Every tool; those that the SDK's server handles itself have no handler of ours."""
        tools = [
            Tool("test_simple_text", "Answers.", NoArguments, (Answer,), _plain),
            Tool("test_error_handling", "Fails.", NoArguments, (Answer,), _error),
            Tool("test_custom_header", "Has an argument that a header mirrors.", Region, (Answer,), _plain),
        ]
        tools += self.jobs.tools()
        tools += [
            Tool(name, f"Fixture {name}.", NoArguments, (Answer,), _plain, waits=lambda _: True)
            for name in self.special
        ]
        about = "A fixture for conformance tests."
        return Toolset("everything", "Everything", about, tuple(tools), offers=lambda: self.changes)

    def server(self, endpoint: Endpoint, calls: Calls, listening: Listening | None) -> Server[Any]:
        """The coordinator's own server for the endpoint, with the fixtures added."""
        server = build_server(endpoint, calls, listening)
        server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="fixture"))
        ours = server.get_request_handler("tools/call")
        listed = server.get_request_handler("tools/list")
        assert ours is not None
        assert listed is not None

        async def call(context: Context, params: CallParams) -> Any:
            special = self.special.get(params.name)
            check_declared(context, params.name)
            return await (special(context, params) if special else ours.handler(context, params))

        async def list_tools(context: Context, params: Any) -> types.ListToolsResult:
            result: Any = await listed.handler(context, params)
            for tool in result.tools:
                if tool.name == "json_schema_2020_12_tool":
                    tool.input_schema = SCHEMA_2020_12
                if tool.name in self.special:
                    tool.output_schema = None
            return types.ListToolsResult(tools=result.tools)

        add = server.add_request_handler
        add("tools/call", CallParams, call)
        add("tools/list", types.PaginatedRequestParams, list_tools)
        add("logging/setLevel", types.SetLevelRequestParams, _empty)
        add("resources/subscribe", types.SubscribeRequestParams, _empty)
        add("resources/unsubscribe", types.UnsubscribeRequestParams, _empty)
        add("completion/complete", types.CompleteRequestParams, _complete)
        add("resources/list", types.PaginatedRequestParams, _list_resources)
        add("resources/templates/list", types.PaginatedRequestParams, _list_templates)
        add("resources/read", types.ReadResourceRequestParams, _read_resource)
        add("prompts/list", types.PaginatedRequestParams, _list_prompts)
        add("prompts/get", types.GetPromptRequestParams, _get_prompt)
        return server

    async def _trigger(self, _context: Context, _params: CallParams) -> types.CallToolResult:
        self.changes += 1
        return _text("changed")


# --- prompts, resources, completion ---------------------------------------------------------


async def _empty(_context: Context, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


async def _complete(_context: Context, _params: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


_RESOURCES: dict[str, types.TextResourceContents | types.BlobResourceContents] = {
    "test://static-text": types.TextResourceContents(uri="test://static-text", mime_type="text/plain", text="Static."),
    "test://static-binary": types.BlobResourceContents(uri="test://static-binary", mime_type="image/png", blob=IMAGE),
    "test://watched-resource": types.TextResourceContents(
        uri="test://watched-resource", mime_type="text/plain", text="Watched."
    ),
}


async def _list_resources(_context: Context, _params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[types.Resource(uri=uri, name=uri, description="A fixture.") for uri in _RESOURCES],
        ttl_ms=0,
        cache_scope="private",
    )


async def _list_templates(_context: Context, _params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template", description="One.")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def _read_resource(_context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    found = _RESOURCES.get(uri)
    if found is None and uri.startswith("test://template/"):
        identity = uri.split("/")[3]
        found = types.TextResourceContents(uri=uri, mime_type="application/json", text=f'{{"id":"{identity}"}}')
    if found is None:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[found])


def _prompt(name: str, *arguments: str) -> types.Prompt:
    given = [types.PromptArgument(name=one, description="One.", required=True) for one in arguments]
    return types.Prompt(name=name, description="A fixture.", arguments=given)


async def _list_prompts(_context: Context, _params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            _prompt("test_simple_prompt"),
            _prompt("test_prompt_with_arguments", "arg1", "arg2"),
            _prompt("test_prompt_with_embedded_resource", "resourceUri"),
            _prompt("test_prompt_with_image"),
            _prompt("test_input_required_result_prompt"),
        ]
    )


async def _get_prompt(
    _context: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    content: list[Any] = [types.TextContent(type="text", text=f"{params.name} {sorted(given.items())}")]
    if params.name == "test_input_required_result_prompt" and not params.input_responses:
        return types.InputRequiredResult(input_requests={"context": _elicit("Context?", context="string")})
    if params.name == "test_prompt_with_embedded_resource":
        content.insert(0, _resource(given["resourceUri"], "text/plain", "Embedded."))
    if params.name == "test_prompt_with_image":
        content.insert(0, _PICTURE)
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=one) for one in content])


def everything_app() -> FrontEnd:
    """The front over the fixtures."""
    everything = Everything()
    settings = Settings(toolsets=("everything",))
    toolsets = {"everything": everything.toolset()}
    authenticator = open_to_all(settings)
    return FrontEnd(
        Parts(
            settings,
            FakeStore(),
            toolsets,
            authenticator=authenticator,
            server_factory=everything.server,
            reader=FeedReader(Store("redis://nowhere")),
            seals=seals(),
        )
    )


def main() -> None:
    """Serves on the given port."""
    app = everything_app()
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http=http_protocol(app, 16_384),
        ws="none",
        log_level="warning",
        access_log=False,
    )
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main()
