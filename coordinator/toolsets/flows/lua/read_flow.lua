--[[
purpose:   Reads a flow with all its steps.
guarantee: As of one moment. Changes nothing. The results together take no more than max_bytes; beyond that
           they are left out and marked.
args:      flow max_bytes
reply:     {header fields and values, spec, finished steps as pack_row writes them (each packed), open steps
           {id, fields...}} or nothing: unknown
errors:    none
--]]
-- @include step
local head = redis.call('HGETALL', K_RUN .. flow)
if #head == 0 then return nil end
local left, rows, open, steps = tonumber(max_bytes), {}, {}, 0
for n, packed in ipairs(redis.call('LRANGE', K_HISTORY .. flow, 0, -1)) do
  left = left - #packed
  if left < 0 and #packed > 1000 then
    local row = cmsgpack.unpack(packed)
    if row[8] then row[8] = '{"truncated":true,"bytes":' .. #row[8] .. '}' end
    packed = cmsgpack.pack(row)
  end
  rows[n] = packed
end
for n = 1, #head, 2 do
  if head[n] == 'i' then steps = tonumber(head[n + 1]) end
end
for n = 1, steps > #rows and steps or 0 do
  local id = whole(flow + n)
  local st = load_step(id)
  if st then
    local flat = {id}
    for _, field in ipairs({'k', 's', 'f', 'e', 'b', 'g', 't'}) do flat[#flat + 1] = st[field] or '' end
    open[#open + 1] = flat
  end
end
return {head, redis.call('GET', K_RUN_SPEC .. flow), rows, open}
