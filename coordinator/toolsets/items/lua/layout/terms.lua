-- The settings that scripts decide by, as they come with each call (`run.terms`): the parts that are configured, by
-- letter, packed.
--   a  attempts (attempts.lua)
--   b  budgets (budgets.lua)
--   d  items rank by when they are due (apart.lua)
--   r  resources (demands.lua)
-- owns: none
local remembered = require 'remembered'

local terms = {}

local KNOWN_MAX = 8

terms.parts = remembered(KNOWN_MAX, function(text) return cmsgpack.unpack(text) end)

-- The name of the schema of an item; as in schemas.lua. `known` = by name.
function terms.schema_name(item, known, default)
  if item.y and known[item.y] then return item.y end
  for tag in string.gmatch(item.g or '', '[^,%s]+') do
    if known[tag] then return tag end
  end
  return default
end

return terms
