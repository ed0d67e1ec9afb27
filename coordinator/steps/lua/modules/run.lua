-- The state of one call, as in the store's run.lua, and what the modules of the steps have there. The argument `engine`
-- is packed by the caller and becomes run.env:
--   rq  limit (steps of the project queued and running, 0: any)  cap (of events)  iso (what time it is, for RQ's tools)
--   protocol; of a worker also  worker  lease  lists  suspect (crashes)
local clock = require 'clock'
local keys = require 'keys'

return function(run, prefix)
  run.keys, run.project, run.now = keys(prefix), keys(prefix).project, clock.now()
  run.at = clock.whole(run.now)
  if run.engine then
    run.env = cmsgpack.unpack(run.engine)
    run.events_max = run.env.cap
  end
  run.steps, run.owners = {}, {} -- by key: open steps, and their owners (steps.lua)
  run.fresh, run.pending = {}, 0 -- steps that this call made ready, by list, and their number; written at its end
  run.taken, run.specs, run.plain_jobs = {}, {}, {} -- what a worker gets (modules/taking.lua)
  return run
end
