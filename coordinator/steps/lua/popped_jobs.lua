--[[
purpose:   Says which pointers workers have popped from queues that are not in the store's Redis, and have not
           acknowledged yet.
guarantee: Changes nothing but entries that lead to no job.
args:      run.engine most
           most = pointers of each queue at most, the oldest
reply:     for each Popped (store.py)
errors:    none
owns:      rq
full:      it reads, and only deletes
--]]
local pointers = require 'pointers'

return function(run, most)
  local found = {}
  for _, list in ipairs(run.env.lists) do
    local key = run.env.rq .. 'queue:' .. list .. ':intermediate'
    for _, id in ipairs(redis.call('LRANGE', key, 0, tonumber(most) - 1)) do
      local project = pointers.is_plain(run, id) and pointers.project_of(run, id)
      if project then
        found[#found + 1] = {project, id, list}
      elseif not pointers.is_plain(run, id) then
        redis.call('LREM', key, 1, id)
      end
    end
  end
  return cmsgpack.pack(found)
end
