--[[
purpose:   Says which jobs' steps still wait for a worker.
guarantee: Changes nothing.
args:      jobs...
           jobs = ids of RQ jobs of this project
reply:     those whose step waits under the attempt that they point to
errors:    none
--]]
-- @include step
local waiting = {}
for _, job in ipairs(jobs) do
  local _, step, attempt = parse_job(job)
  local st = redis.call('HMGET', K_STEP .. step, 's', 'f')
  if st[1] == 'q' and st[2] == attempt then waiting[#waiting + 1] = job end
end
return cmsgpack.pack(waiting)
