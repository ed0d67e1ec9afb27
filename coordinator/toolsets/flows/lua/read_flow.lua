--[[
purpose:   Reads a flow with its steps; of long results only how long they are.
guarantee: As of one moment. Changes nothing.
args:      flow
reply:     {header fields and values, spec, finished steps as pack_row writes them (each packed), open steps
           {id, fields...}} or nothing: unknown
errors:    none
--]]
-- @include step
local head = redis.call('HGETALL', K_RUN .. flow)
if #head == 0 then return nil end
local rows, open, created = redis.call('LRANGE', K_HISTORY .. flow, 0, -1), {}, 0
for n = 1, #head, 2 do
  if head[n] == 'i' then created = tonumber(head[n + 1]) end
end
for n = 1, created > #rows and created or 0 do
  local id = whole(flow + n)
  local st = load_step(id)
  if st then
    local flat = {id}
    for _, field in ipairs({'k', 's', 'f', 'e', 'b', 'g', 't'}) do flat[#flat + 1] = st[field] or '' end
    open[#open + 1] = flat
  end
end
return {head, redis.call('GET', K_RUN_SPEC .. flow), rows, open}
