--[[
purpose:   Says which pointers workers have popped from queues that are not in the store's Redis, and have not
           acknowledged yet.
guarantee: Changes nothing but entries that lead to no job.
args:      engine most
           most = pointers of each queue at most, the oldest
reply:     {project, job id, list} for each
errors:    none
full:      reading; it only takes away
--]]
-- @include pointers
local found = {}
for _, list in ipairs(env.lists) do
  local key = env.rq .. 'queue:' .. list .. ':intermediate'
  for _, id in ipairs(redis.call('LRANGE', key, 0, tonumber(most) - 1)) do
    local project = is_plain(id) and project_of(id)
    if project then
      found[#found + 1] = {project, id, list}
    elseif not is_plain(id) then
      redis.call('LREM', key, 1, id)
    end
  end
end
return cmsgpack.pack(found)
