-- wrk script: claim_item calls, each connection an agent that renews its claim. BENCH_ITEMS has the ids,
-- BENCH_TOKENS the bearer tokens of the agents, if needed, BENCH_PROOFS their proofs.
-- BENCH_ERA: modern; legacy (with a handshake); host (modern, with Codex's keys in _meta, new in each call).
local items, tokens, proofs = {}, {}, {}
for id in string.gmatch(os.getenv('BENCH_ITEMS'), '[^,]+') do items[#items + 1] = id end
for token in string.gmatch(os.getenv('BENCH_TOKENS') or '', '[^,]+') do tokens[#tokens + 1] = token end
for proof in string.gmatch(os.getenv('BENCH_PROOFS') or '', '[^,]+') do proofs[#proofs + 1] = ',"proof":"' .. proof .. '"' end
local era = os.getenv('BENCH_ERA')
local seed = tonumber(os.getenv('BENCH_SEED'))
local FIRST_ID = 100000000 -- ids of one length
local n = 0

local headers = {
  ['Content-Type'] = 'application/json', ['Accept'] = 'application/json, text/event-stream', ['Connection'] = 'keep-alive',
}
local meta, of_host = '', ''
if era ~= 'legacy' then
  headers['MCP-Protocol-Version'] = '2026-07-28'
  headers['Mcp-Method'] = 'tools/call'
  headers['Mcp-Name'] = 'claim_item'
  meta = ',"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    .. '"io.modelcontextprotocol/clientInfo":{"name":"wrk","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}'
else
  headers['MCP-Protocol-Version'] = '2025-11-25'
end

if era == 'host' then
  local id = '00000000-0000-7000-8000-000000000001'
  of_host = ',"callId":"call_ExampleExample%d","x-codex-turn-metadata":{"session_id":"' .. id .. '","thread_id":"' .. id
    .. '","model":"gpt-5","turn_id":"' .. id .. '","turn_started_at_unix_ms":1790000000000,"thread_source":"user",'
    .. '"turn_trigger":"exec","sandbox":"none","sandbox_mode":"danger-full-access","auto_review_enabled":false,'
    .. '"node_repl_auto_review_required":false,"node_repl_disabled":false,"codex_version":"0.169.0"},"threadId":"' .. id
    .. '","sessionId":"' .. id .. '","windowId":"' .. id .. ':0","itemId":"fc_1","progressToken":%d'
end
if meta ~= '' then of_host = of_host .. '}' end

-- Cached by agent, up to the body, whose length is constant: rendering it again would dominate the cost.
local heads = {}

function request()
  n = n + 1
  local agent = n % #items + 1
  local body = string.format(
    '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"claim_item","arguments":{"actor":{"id":"agent-%d",'
      .. '"kind":"subagent"%s},"requestId":"%08x-0000-4000-8000-%012x","claims":[{"itemId":"%s","ttlSeconds":900}]}%s}}',
    FIRST_ID + n, agent, proofs[agent] or '', seed, n, items[agent], meta .. string.format(of_host, FIRST_ID + n, FIRST_ID + n)
  )
  local head = heads[agent]
  if not head then
    if tokens[agent] then headers['Authorization'] = 'Bearer ' .. tokens[agent] end
    head = string.sub(wrk.format('POST', nil, headers, body), 1, -#body - 1)
    heads[agent] = head
  end
  return head .. body
end
