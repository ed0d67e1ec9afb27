--[[
purpose:   Reads a flow with its steps; of long results only the length.
guarantee: A consistent snapshot. Changes nothing.
args:      id
reply:     _Read (store/flows.py), with facts as fields and values in turn, and each row packed; or nothing: unknown
errors:    none
--]]
local clock = require 'clock'
local read = require 'read'
local steps = require 'steps'

local FIELDS = {'k', 's', 'f', 'e', 'b', 'g', 't'}

-- How many steps were created, from the header's fields and values.
local function steps_created(head)
  for n = 1, #head, 2 do
    if head[n] == 'i' then return tonumber(head[n + 1]) end
  end
  return 0
end

return function(run, id)
  return read(run, function()
    local head = redis.call('HGETALL', run.keys.run .. id)
    if #head == 0 then return nil end
    local rows, open, created = redis.call('LRANGE', run.keys.history .. id, 0, -1), {}, steps_created(head)
    for n = 1, created > #rows and created or 0 do
      local st = steps.load(run, clock.whole(id + n))
      if st then
        local flat = {st.id}
        for _, field in ipairs(FIELDS) do flat[#flat + 1] = st[field] or '' end
        flat[#flat + 1] = cjson.encode(st.m or {})
        open[#open + 1] = flat
      end
    end
    return {head, redis.call('GET', run.keys.run_spec .. id), rows, open}
  end, true)
end
