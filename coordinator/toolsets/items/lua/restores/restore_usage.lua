--[[
purpose:   Restores the sums of usage of another store by day, model and agent.
guarantee: Only while the project has no items, for which more could have been used since; so a call can be repeated.
args:      request run.events_max run.terms run.config run.labels rows
           rows = packed list of {field, value} (usage.lua)
reply:     {how many were written}
errors:    REQUEST_ID_REUSED UNSETTLED
--]]
local change = require 'change'
local usage = require 'usage'

return function(run, request, rows)
  return change(run, request, {}, function()
    if redis.call('EXISTS', run.keys.ranked .. 'p', run.keys.ranked .. 'c') > 0 then return {0} end
    local list, words = cmsgpack.unpack(rows), {}
    for _, one in ipairs(list) do words[#words + 1], words[#words + 2] = one[1], one[2] end
    usage.restore_sums(run, words)
    return {#list}
  end)
end
