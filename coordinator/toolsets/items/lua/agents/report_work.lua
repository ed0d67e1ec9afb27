--[[
purpose:   Takes what a worker reports of its item: a note, its end, that it failed, a question.
guarantee: In one step, under the worker's claim, which is renewed or ends. A repeated report has no second effect
           (reporting.lua). A claim that has expired is placed again, if nobody else has the item and, unless that ends
           it, its resources are free. Usage is added once.
args:      request run.events_max run.terms run.config run.labels packed_report
           the request has no record; packed_report = packed as for `reporting.take`
reply:     Reported (store/agents/take.py)
errors:    CONFIG_UNKNOWN UNSETTLED
--]]
local agent_drains = require 'agent_drains'
local change_by_schema = require 'change_by_schema'
local reporting = require 'reporting'
local requests = require 'requests'

return function(run, request, packed_report)
  local report = cmsgpack.unpack(packed_report)
  return change_by_schema(run, request, {looks_for = agent_drains.looked_for(run.keys.prefix)}, function()
    local reply = reporting.take(run, request, report)
    if reply[1] == 'done' and report[5] ~= 'note' then requests.keep(run, report[3], request.keep_ms, reply[2]) end
    return reply
  end)
end
