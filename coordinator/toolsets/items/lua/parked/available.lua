-- What a call has made available, which serve.lua offers to parked calls. In a call, as lists: ready, ids moved to an
-- offered class; freed, ids of items whose subtrees may be claimed again; given_back, demands (demands.lua) that are
-- not held any more.
-- owns: none
local available = {}

-- Adds to the list `what`.
function available.note(run, what, one)
  local own = run[available] or {}
  run[available] = own
  own[what] = own[what] or {}
  table.insert(own[what], one)
end

-- Takes a list, which the caller is to offer or forgets.
function available.take(run, what)
  local list = run[available] and run[available][what] or {}
  if list[1] then run[available][what] = nil end
  return list
end

-- Whether there are items that are ready or freed.
function available.are_items(run)
  local own = run[available]
  return own ~= nil and (own.ready or own.freed) ~= nil
end

return available
