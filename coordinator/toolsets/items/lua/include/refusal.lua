-- @include graph
-- @include texts
-- @include notes
-- Why a transition is not applied, in the form of an entry of advance_item's reply; `detail` is nil where the reason
-- has none, or is found here.
local function refusal(reason, item, config, detail)
  if reason == 'dependencies' then detail = unsatisfied_blockers(item) end
  return {item.id, reason, item.role, item.role, false, detail or {}, {}, title_of(item), schema_inputs(item, config)}
end
