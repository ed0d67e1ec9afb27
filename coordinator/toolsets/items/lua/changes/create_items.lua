--[[
purpose:   Creates items, each atomically.
guarantee: Each item appears completely (hash, texts, indexes) or not at all, with the right depth. The caller
           sends bounded slices. All items of a call have the creation time of the first slice and rising ids, so
           every list keeps them in the given order.
args:      request run.events_max run.terms run.config run.labels created specs
           created = from the reply to the call's first slice, 0 in that; specs = packed list of specs
           (creation.lua)
reply:     {created (ms), list of Created (store/items.py)}
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
local change_by_schema = require 'change_by_schema'
local creation = require 'creation'

return function(run, request, created, specs)
  return change_by_schema(run, request, {}, function()
    local list, time, results = cmsgpack.unpack(specs), created ~= '0' and tonumber(created) or run.now, {}
    creation.begin(run, list)
    for n, spec in ipairs(list) do
      local item, reason = creation.create(run, spec, time)
      results[n] = {item and 'created' or reason, item and item.depth or 0, spec[1]}
    end
    creation.index_new(run)
    return {time, results}
  end)
end
