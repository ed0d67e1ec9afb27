--[[
purpose:   Removes the jobs of a project that has left the store from a part of a queue.
guarantee: Other jobs stay, in their order.
args:      run.engine project list last most
           list = a queue; last = where the part ends, counted from its end: -1 is the last job;
           most = how many jobs the part has at most
reply:     {how many jobs the part has, how many of them were removed}
errors:    none
owns:      rq
--]]
local pointers = require 'pointers'

local REMOVED = '' -- no job has this id

return function(run, project, list, last, most)
  last = tonumber(last)
  local queue = run.env.rq .. 'queue:' .. list
  local jobs, removed = redis.call('LRANGE', queue, last - most + 1, last), 0
  for n, id in ipairs(jobs) do
    if pointers.project_of(run, id) == project then
      redis.call('LSET', queue, last - #jobs + n, REMOVED)
      redis.call('UNLINK', run.env.rq .. 'job:' .. id)
      removed = removed + 1
    end
  end
  if removed > 0 then -- in one go, from the end that is nearer
    local from_end = -last < redis.call('LLEN', queue) / 2
    redis.call('LREM', queue, from_end and -removed or removed, REMOVED)
  end
  return {#jobs, removed}
end
