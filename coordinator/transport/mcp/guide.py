"""The handlers of prompts and completions, for the SDK's server of one endpoint."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from coordinator.transport.calls import Calls
from coordinator.transport.endpoints import Endpoint
from coordinator.transport.mcp.completion import Completions
from coordinator.transport.mcp.exchange import Context, ExchangeOf
from coordinator.transport.mcp.prompts import Prompts, resolved
from coordinator.transport.mcp.resources import check_cursor, scoped


class Guide:
    """The handlers.

    Args:
    """

    def __init__(self, endpoint: Endpoint, calls: Calls, transport: str, exchange_of: ExchangeOf) -> None:
        self._prompts = Prompts(endpoint)
        self._completions = Completions(endpoint, calls, self._prompts, transport)
        self._exchange_of = exchange_of

    def handlers(self) -> dict[str, Any]:
        """Arguments of the SDK's server: what the endpoint offers."""
        methods: dict[str, Any] = {}
        if self._prompts.offered(None):
            methods |= {"on_list_prompts": self._list_prompts, "on_get_prompt": self._get_prompt}
        if methods or self._completions.templates(None):
            methods["on_completion"] = self._complete
        return methods

    async def _list_prompts(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        check_cursor(params)
        exchange = await self._exchange_of(context)
        return scoped(self._prompts.listing(exchange.caller), exchange)

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        call = (await self._exchange_of(context)).call(context.request_id)
        prompt, values = self._prompts.checked(call.caller, params.name, params.arguments or {})
        for name, value in values.items():
            found = (await self._completions.find(call, name, value)).values
            if name == "procedure" and value not in found:
                found = (await self._completions.find(call, name, "")).values  # to say what there is
            values[name] = resolved(name, value, found)
        return self._prompts.get(call.caller, prompt, values)

    async def _complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        return await self._completions.answer((await self._exchange_of(context)).call(context.request_id), params)
