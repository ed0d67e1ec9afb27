--[[
purpose:   A worker takes pointers from queues that are not in the store's Redis.
guarantee: A pointer stays in its queue's intermediate list until the worker acknowledges it, so none is lost with
           the worker.
args:      run.engine want
reply:     for each Popped (store.py)
errors:    none
owns:      rq
--]]
local pointers = require 'pointers'
local steps = require 'steps'

local USELESS_MAX = pointers.USELESS_MAX

-- Moves pointers of one list to its intermediate list until `most` were found in all.
local function pop(run, list, found, most)
  local key, useless = run.env.rq .. 'queue:' .. list, 0
  while #found < most and useless < USELESS_MAX do
    local id = redis.call('LMOVE', key, key .. ':intermediate', 'LEFT', 'RIGHT')
    if not id then return end
    pointers.own(list, key .. ':intermediate')
    local project = steps.parse_job(id) and pointers.project_of(run, id)
    if project or pointers.is_plain(run, id) then
      found[#found + 1] = {project or '', id, list}
    else
      redis.call('LREM', key .. ':intermediate', -1, id)
      useless = useless + 1
    end
  end
end

return function(run, want)
  local found, most = {}, tonumber(want)
  for _, list in ipairs(run.env.lists) do pop(run, list, found, most) end
  if #found < most then
    for _, list in ipairs(run.env.lists) do pointers.silence_bell(run, list) end
  end
  return cmsgpack.pack(found)
end
