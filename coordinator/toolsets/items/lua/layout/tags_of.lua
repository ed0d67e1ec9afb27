-- The tags of an item, as a list, from the text that it stores.
-- owns: none
local remembered = require 'remembered'

local KEPT_MAX = 200

return remembered(KEPT_MAX, function(text)
  local tags = {}
  for tag in string.gmatch(text, '[^,%s]+') do tags[#tags + 1] = tag end
  return tags
end)
