-- wrk script: claim_item calls, each connection an agent that renews its claim. BENCH_ITEMS has the ids,
-- BENCH_TOKENS the bearer tokens of the agents, where they need any, BENCH_PROOFS the proofs that they present.
local items, tokens, proofs = {}, {}, {}
for id in string.gmatch(os.getenv('BENCH_ITEMS'), '[^,]+') do items[#items + 1] = id end
for token in string.gmatch(os.getenv('BENCH_TOKENS') or '', '[^,]+') do tokens[#tokens + 1] = token end
for proof in string.gmatch(os.getenv('BENCH_PROOFS') or '', '[^,]+') do proofs[#proofs + 1] = ',"proof":"' .. proof .. '"' end
local modern = os.getenv('BENCH_ERA') == 'modern'
local seed = tonumber(os.getenv('BENCH_SEED'))
local FIRST_ID = 100000000 -- ids of one length
local n = 0

local headers = {
  ['Content-Type'] = 'application/json', ['Accept'] = 'application/json, text/event-stream', ['Connection'] = 'keep-alive',
}
local meta = ''
if modern then
  headers['MCP-Protocol-Version'] = '2026-07-28'
  headers['Mcp-Method'] = 'tools/call'
  headers['Mcp-Name'] = 'claim_item'
  meta = ',"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    .. '"io.modelcontextprotocol/clientInfo":{"name":"wrk","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}'
else
  headers['MCP-Protocol-Version'] = '2025-11-25'
end

-- By agent, up to the body, which has the same length each time: to make it anew would cost more than all else.
local heads = {}

function request()
  n = n + 1
  local agent = n % #items + 1
  local body = string.format(
    '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"claim_item","arguments":{"actor":{"id":"agent-%d",'
      .. '"kind":"subagent"%s},"requestId":"%08x-0000-4000-8000-%012x","claims":[{"itemId":"%s","ttlSeconds":900}]}%s}}',
    FIRST_ID + n, agent, proofs[agent] or '', seed, n, items[agent], meta
  )
  local head = heads[agent]
  if not head then
    if tokens[agent] then headers['Authorization'] = 'Bearer ' .. tokens[agent] end
    head = string.sub(wrk.format('POST', nil, headers, body), 1, -#body - 1)
    heads[agent] = head
  end
  return head .. body
end
