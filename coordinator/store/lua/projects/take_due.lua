--[[
purpose:   Notes when something ends in projects, and takes those in which something has ended.
guarantee: A project that was taken is not taken again for `pause_ms`, by any process. If the process that took it dies,
           another one takes it then. Nothing is missed that was noted while another process looked.
args:      pause_ms most notes finished
           most = how many projects to take; notes = packed list of {project, when something in it ends (ms), whether
           this is new}; finished
           = packed list of {project, until when it was taken, when the next thing in it ends (ms) or 0}
reply:     Due (projects/due.py)
errors:    none
owns:      due_projects
full:      it stores short names, and deletes them
--]]
local clock = require 'clock'
local projects = require 'projects'

local LOOK_AGAIN = 0.5 -- ms; scores are whole otherwise

-- Only of projects that nobody has noted since they were taken.
local function finish(run, list)
  for _, entry in ipairs(list) do
    local project, taken_until, ends = unpack(entry)
    if tonumber(redis.call('ZSCORE', run.keys.due_projects, project)) == taken_until then
      if ends == 0 then
        redis.call('ZREM', run.keys.due_projects, project)
      else
        redis.call('ZADD', run.keys.due_projects, clock.whole(math.max(ends, taken_until)), project)
      end
    end
  end
end

-- A project that is due within the pause may have been taken: then the process that looks there may have read before
-- what is noted now came about. If this is new, or has ended, the project gets another score, so that what that process
-- finds does not count, and somebody looks again.
local function note(run, list, pause_ms)
  for _, entry in ipairs(list) do
    local project, ends, is_new = unpack(entry)
    if projects.is_project(project) then
      local due = tonumber(redis.call('ZSCORE', run.keys.due_projects, project) or math.huge)
      local soon = due <= run.now + pause_ms
      if ends < due and (ends > run.now or not soon) then
        redis.call('ZADD', run.keys.due_projects, clock.whole(ends), project)
      elseif soon and (is_new or ends <= run.now) and due % 1 == 0 then
        redis.call('ZADD', run.keys.due_projects, due - LOOK_AGAIN, project)
      end
    end
  end
end

return function(run, pause_ms, most, notes, finished)
  finish(run, cmsgpack.unpack(finished))
  note(run, cmsgpack.unpack(notes), tonumber(pause_ms))
  local taken, taken_until = {}, run.now + pause_ms
  for n, project in ipairs(redis.call('ZRANGEBYSCORE', run.keys.due_projects, '-inf', run.now, 'LIMIT', 0, most)) do
    redis.call('ZADD', run.keys.due_projects, clock.whole(taken_until), project)
    taken[n] = {project, taken_until}
  end
  local first = redis.call('ZRANGE', run.keys.due_projects, 0, 0, 'WITHSCORES')[2]
  return cmsgpack.pack({run.now, taken, math.ceil(tonumber(first) or 0)})
end
