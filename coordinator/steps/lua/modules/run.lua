-- The state of one call, as in the store's run.lua, and what the modules of the steps have there. The argument `engine`
-- is packed by the caller and becomes run.env:
--   rq  limit (steps of the project queued and running, 0: any)  cap (of events)  iso (what time it is, for RQ's tools)
--   protocol; of a worker also  worker  lease  lists  suspect (crashes)
-- owns: none
local clock = require 'clock'
local keys = require 'keys'

return function(args, prefix)
  local all, now, engine = keys(prefix), clock.now(), args.engine
  local env = engine and cmsgpack.unpack(engine)
  return { -- made at once: filling it field by field takes longer
    keys = all, project = all.project, now = now, at = clock.whole(now),
    env = env, events_max = env and env.cap or args.events_max,
    steps = {}, owners = {}, -- by key: open steps, and their owners (steps.lua)
    fresh = {}, pending = 0, -- steps that this call made ready, by list, and their number; written at its end
    taken = {}, specs = {}, plain_jobs = {}, -- what a worker gets (taking.lua)
  }
end
