-- @include graph
-- @include texts
-- @include notes
-- Why a transition is not applied, in the form of an entry of advance_item's reply.
local function refusal(reason, it, config, detail)
  if reason == 'dependencies' then detail = unsatisfied(it) end
  return {it.id, reason, it.role, it.role, false, detail or {}, {}, title(it), schema_inputs(it, config)}
end
