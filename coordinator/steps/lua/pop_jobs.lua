--[[
purpose:   A worker takes pointers from queues that are not in the store's Redis.
guarantee: A pointer stays in its queue's intermediate list until the worker acknowledges it, so none is lost with
           the worker.
args:      engine want
reply:     {project or '' for a plain job, job id, list} for each
errors:    none
--]]
-- @include pointers
local found, most, stale = {}, tonumber(want), 0
for _, list in ipairs(env.lists) do
  local key = env.rq .. 'queue:' .. list
  while #found < most and stale < STALE do
    local id = redis.call('LMOVE', key, key .. ':intermediate', 'LEFT', 'RIGHT')
    if not id then break end
    local project = parse_job(id) and project_of(id)
    if project or is_plain(id) then
      found[#found + 1] = {project or '', id, list}
    else
      redis.call('LREM', key .. ':intermediate', -1, id)
      stale = stale + 1
    end
  end
end
if #found < most then
  for _, list in ipairs(env.lists) do silence_bell(list) end
end
return cmsgpack.pack(found)
