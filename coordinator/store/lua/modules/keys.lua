-- The keys of a partition by the names of their families (keys.py): keys(prefix).item is `fc:{p}:i:`, to be followed by
-- an id. They are made once per partition; this is the one thing that modules keep from call to call.
local families = require 'families'

local KEPT_MAX = 200

local kept, count = {}, 0

return function(prefix)
  local found = kept[prefix]
  if found then return found end
  if count == KEPT_MAX then kept, count = {}, 0 end
  found = {prefix = prefix, project = string.sub(prefix, 5, -3)}
  for name, suffix in pairs(prefix == 'fc:{!fleet}:' and families.fleet or families.project) do
    found[name] = prefix .. suffix
  end
  kept[prefix], count = found, count + 1
  return found
end
