--[[
purpose:   Applies trigger-based transitions one after the other, each with everything that follows from it.
guarantee: Each element is applied completely or not at all: ownership, fence, dependencies and gates are
           checked in the step that changes the item, cascades included. The first `start` of an agent that took over an
           abandoned item begins its work again: it leaves the item in its role, and is on record.
args:      request fingerprint keep_ms events_max config labels transitions
           labels = packed {trigger -> label}; transitions = packed
           {id, trigger, trusted actor id or '', actor, verification, summary, fence or 0}
reply:     list of {id, reason or '', from, to, label, cascades, unblocked, title, schema inputs, verification, blocked
           again}. If the first transitions change items with very many edges or tags, the list ends early; the caller
           sends the rest
           applied: reason ''; cascades {id, title, from, to, applied, missing keys, phases}; unblocked {id, title};
           verification as recorded; blocked again = ids of items with one more unsatisfied blocker
           refused: in place of cascades, for dependencies {blocker, role, needed}, for gate {missing
           keys, phases}, for claim {expires, whether no actor was given}
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
-- @include clock
-- @include idempotency
-- @include claims
-- @include transition
-- @include settle
-- @include notes
-- @include refusal

local now = server_time()
local unusual = redis.call('EXISTS', K_OWED, K_REQUEST .. request) > 0
if unusual then
  local stored, _, refused = recall(request, fingerprint)
  if refused then return refused end
  if stored then return {stored} end
end
if config_missing(config) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end
if unusual and not settle_debts(now) then return redis.error_reply('FLEET UNSETTLED') end
local run = {now = now, events_max = events_max, config = config, labels = labels}
sweep_claims(now, events_max, SWEEP_BATCH)

local function advance(id, trigger, actor, actor_json, verification, summary, fence)
  blocked_again = {}
  local item = load_item(id)
  if not item then return {id, absence_reason(id), 0, 0, false, {}, {}, '', {false, false, false, {}}} end
  if is_live(item, now) and item.holder ~= actor then
    return refusal('claim', item, config, {item.expires, actor == ''})
  end
  if fence > 0 and fence ~= (item.fence or 0) then return refusal('stale_fence', item, config) end
  local author = {id = actor, actor = actor_json, verification = verification, summary = summary}
  if trigger == 'start' and item.tk and tonumber(item.tk) == item.fence and item.holder == actor then
    if item.nb then return refusal('dependencies', item, config) end
    set_field(item, 'tk', nil)
    set_modified(item, now)
    record_transition(item, item.role, trigger, item.lb, run, author)
    save_item(item)
    local inputs = schema_inputs(item, config)
    return {item.id, '', item.role, item.role, item.lb or false, {}, {}, title_of(item), inputs, verification}
  end
  local schema = schema_of(item, config)
  local to, problem = target_role(item, trigger, schema)
  if not to then return refusal(problem, item, config) end
  local forward = item.role ~= BLOCKED and to ~= BLOCKED and to > item.role
  if forward and trigger ~= 'cancel' and item.nb then return refusal('dependencies', item, config) end
  if schema and (trigger == 'start' or trigger == 'complete') then
    local missing, phases = missing_notes(item, schema, trigger == 'start' and item.role or nil)
    if #missing > 0 then return refusal('gate', item, config, {missing, phases}) end
  end
  local from = item.role
  local unblocked_items = change_role(item, to, trigger, label_after(item, to, trigger, run), run, author)
  local cascades = {}
  cascade_upwards(item, trigger, run, cascades, unblocked_items)
  local unblocked, inputs = named_unblocked(unblocked_items, #cascades > 0), schema_inputs(item, config)
  return {
    item.id, '', from, to, item.lb or false, cascades, unblocked, title_of(item), inputs, verification, blocked_again,
  }
end

local TAG_ENTRIES_MAX = 500 -- of tags and types that a run writes for the items it moves
local results = {}
for n, element in ipairs(cmsgpack.unpack(transitions)) do
  if edges_visited > EDGES_AT_ONCE or tag_entries_written > TAG_ENTRIES_MAX then break end
  results[n] = advance(unpack(element))
end
serve_waiters(now, events_max)
return with_debts(remember(request, fingerprint, 'D', cmsgpack.pack(results), keep_ms))
