--[[
purpose:   Reads a flow with its steps, in slices if these are large.
guarantee: A slice is as of one moment. Changes nothing. The results together take no more than max_bytes;
           beyond that they are left out and marked.
args:      flow max_bytes from
           from = finished steps that are passed over
reply:     {header fields and values, spec, finished steps as pack_row writes them (each packed), open steps
           {id, fields...}, finished steps up to the end of this slice, and altogether, what is left of
           max_bytes} or nothing: unknown
errors:    none
--]]
-- @include step
local head = redis.call('HGETALL', K_RUN .. flow)
if #head == 0 then return nil end
local SLICE, ROWS = 2097152, 8 -- bytes that one run goes through, and rows of which it knows no size before
local left, rows, open, steps = tonumber(max_bytes), {}, {}, 0
local till, total, gone = tonumber(from), redis.call('LLEN', K_HISTORY .. flow), 0
while till < total and gone < SLICE do
  for _, packed in ipairs(redis.call('LRANGE', K_HISTORY .. flow, till, till + ROWS - 1)) do
    left, gone, till = left - #packed, gone + #packed, till + 1
    if left < 0 and #packed > 1000 then
      local row = cmsgpack.unpack(packed)
      if row[8] then row[8] = '{"truncated":true,"bytes":' .. #row[8] .. '}' end
      packed = cmsgpack.pack(row)
    end
    rows[#rows + 1] = packed
  end
end
for n = 1, #head, 2 do
  if head[n] == 'i' then steps = tonumber(head[n + 1]) end
end
for n = 1, steps > total and steps or 0 do
  local id = whole(flow + n)
  local st = load_step(id)
  if st then
    local flat = {id}
    for _, field in ipairs({'k', 's', 'f', 'e', 'b', 'g', 't'}) do flat[#flat + 1] = st[field] or '' end
    open[#open + 1] = flat
  end
end
return {head, redis.call('GET', K_RUN_SPEC .. flow), rows, open, till, total, left}
