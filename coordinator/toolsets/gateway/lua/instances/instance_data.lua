-- What an instance holds besides its hash:
--   gate_data      c context  n input  v evidence by kind  f last failure  fa time of that  r values kept whole (all
--                  JSON); o, g: approvals.lua
--   gate_result    such values, by their numbers
--   gate_evidence  the evidence in order
-- owns: gate_data gate_evidence gate_result
local instance_data = {}

local EVIDENCE_MAX = 200 -- per instance

function instance_data.begin(run, id, input)
  redis.call('HSET', run.keys.gate_data .. id, 'n', input, 'c', '{}')
end

-- Writes what an advance says of context, evidence by kind, the last failure, and values that are kept whole.
function instance_data.write(run, inst, adv)
  local fields = {}
  local function also(field, value)
    fields[#fields + 1] = field
    fields[#fields + 1] = value
  end
  if adv.context then also('c', adv.context) end
  if adv.counts then also('v', adv.counts) end
  if adv.kept then also('r', adv.kept) end
  if adv.failure == '-' then
    redis.call('HDEL', run.keys.gate_data .. inst.id, 'f', 'fa')
  elseif adv.failure then
    also('f', adv.failure)
    also('fa', run.at)
  end
  if #fields > 0 then redis.call('HSET', run.keys.gate_data .. inst.id, unpack(fields)) end
  for _, result in ipairs(adv.results or {}) do
    local key = run.keys.gate_result .. inst.id .. '_' .. result[1]
    if result[2] == '' then redis.call('UNLINK', key) else redis.call('SET', key, result[2]) end
  end
end

function instance_data.add_evidence(run, inst, evidence)
  local key = run.keys.gate_evidence .. inst.id
  for _, about in ipairs(evidence) do redis.call('RPUSH', key, run.at .. ' ' .. about) end
  redis.call('LTRIM', key, -EVIDENCE_MAX, -1)
end

function instance_data.forget(run, id)
  local result = run.keys.gate_result .. id .. '_'
  redis.call('UNLINK', run.keys.gate_data .. id, run.keys.gate_evidence .. id, result .. 1, result .. 2, result .. 3,
    result .. 4)
end

return instance_data
