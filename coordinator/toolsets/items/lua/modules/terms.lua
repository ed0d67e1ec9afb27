-- The settings that scripts decide by, as they come with each call (`run.terms`): a letter for each part that is
-- configured, a blank, and the parts by letter, packed. They are unpacked once per call, and only if a part is needed.
--   a  attempts (modules/attempts.lua)
--   d  items rank by when they are due (modules/apart.lua)
--   r  resources (modules/demands.lua)
local terms = {}

-- A part of the settings; nil if it is not configured.
function terms.part(run, letter)
  local text = run.terms
  local known_to = text and string.find(text, ' ', 1, true)
  if not known_to or not string.find(string.sub(text, 1, known_to), letter, 1, true) then return nil end
  if not run.parts then run.parts = cmsgpack.unpack(string.sub(text, known_to + 1)) end
  return run.parts[letter]
end

-- The name of the schema of an item; as in modules/schemas.lua. `known` = by name.
function terms.schema_name(item, known, default)
  if item.y and known[item.y] then return item.y end
  for tag in string.gmatch(item.g or '', '[^,%s]+') do
    if known[tag] then return tag end
  end
  return default
end

return terms
