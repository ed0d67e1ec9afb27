--[[
purpose:   Lists gates that wait for their release, the last one first.
guarantee: Changes nothing. Reads at most `limit`.
args:      after limit
           after = the position of the page before, '' for the first
reply:     {now, position of the next page or '', list of _WaitingRow (store/gates.py)}
errors:    none
--]]
local read = require 'read'
local recent = require 'recent'
local steps = require 'steps'

return function(run, after, limit)
  return read(run, function()
    local entries, position = recent.page(run.keys.step_gates, {0}, after, tonumber(limit))
    local rows = {}
    for _, entry in ipairs(entries) do
      local st = steps.load(run, entry.id)
      local flow = st and st.s == 'g' and steps.load_owner(run, st.r)
      if flow then
        local expires = st.y and tonumber(st.b) + st.y or 0
        rows[#rows + 1] = {tonumber(st.id), st.k, tonumber(st.r), flow.n, flow.s, flow.u, flow.ro or '', tonumber(st.b),
          expires, st.m or {}}
      end
    end
    return {run.now, position, rows}
  end)
end
