-- @include texts
-- {id, title, depth} of each ancestor, root first, direct parent last (at most three).
local function ancestors_of(it)
  local list, above = {}, it.pa and load(it.pa)
  while above do
    table.insert(list, 1, {above.id, title(above), tonumber(above.d)})
    above = above.pa and load(above.pa)
  end
  return list
end
