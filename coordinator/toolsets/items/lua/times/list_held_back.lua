--[[
purpose:   Lists items that wait for somebody or for a time, for people: those longest in a list first.
guarantee: O(log n + limit). Items of claims that have expired but were not put back yet are not among the abandoned.
args:      list offset limit
           list = abandoned (not those that wait for a dependency or are held back, as project_state counts them),
           quarantined, or retries: items in back-off, the one whose back-off ends first; postponed: those not ready
           before a time; due: open ones by when they are due; overdue: those of them of which that has
           passed; recurring: templates by when to look at them next
reply:     HeldBack (store/boards/claim_lists.py)
errors:    none
--]]
local abandoned = require 'abandoned'
local read = require 'read'
local rows = require 'rows'

return function(run, list, offset, limit)
  return read(run, function()
    local sets = {
      abandoned = run.keys.abandoned, quarantined = run.keys.quarantined, retries = run.keys.backoffs,
      postponed = run.keys.postponed, due = run.keys.due,
      overdue = run.keys.due, recurring = run.keys.recurring,
    }
    local key, shown, times = sets[list], {}, {}
    local last_scores = {abandoned = abandoned.WAITING_OFFSET - 1, overdue = run.now}
    local total = redis.call('ZCOUNT', key, 0, last_scores[list] or '+inf')
    local last = math.min(offset + limit, total) - 1
    local flat = last < tonumber(offset) and {} or redis.call('ZRANGE', key, offset, last, 'WITHSCORES')
    for n = 1, #flat, 2 do
      shown[#shown + 1], times[#times + 1] = rows.of(run, flat[n]), tonumber(flat[n + 1]) % abandoned.WAITING_OFFSET
    end
    return {run.now, total, shown, times}
  end)
end
