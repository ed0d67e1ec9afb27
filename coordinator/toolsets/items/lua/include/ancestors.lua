-- @include texts
-- {id, title, depth} of each ancestor, root first, direct parent last (at most three).
local function ancestors_of(item)
  local list, above = {}, item.pa and load_item(item.pa)
  while above do
    table.insert(list, 1, {above.id, title_of(above), tonumber(above.d)})
    above = above.pa and load_item(above.pa)
  end
  return list
end
