--[[
purpose:   Applies trigger-based transitions one after the other, each with all that follows from it.
guarantee: Each element is applied whole or not at all: ownership, fence, dependencies and gates are
           checked in the step that changes the item, cascades included.
args:      request fingerprint keep_ms events_max config labels transitions
           labels = packed {trigger -> label}; transitions = packed
           {id, trigger, trusted actor id or '', actor, verification, summary, fence or 0}
reply:     list of {id, reason or '', from, to, label, cascades, unblocked, title, schema inputs, verification}, of the
           first transitions only where these changed items with very many edges or tags: the others are for another run
           applied: reason ''; cascades {id, title, from, to, applied, missing keys}; unblocked {id, title};
           verification as it is recorded
           refused: in place of cascades, for dependencies {blocker, role, needed}, for gate missing
           keys, for claim {expires, whether no actor was given}
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
if unusual and not settle(now) then return redis.error_reply('FLEET UNSETTLED') end
local run = {now = now, cap = events_max, config = config, labels = labels}
sweep(now, events_max, SWEEP_BATCH)

local function advance(id, trigger, actor, actor_json, verification, summary, fence)
  local it = load(id)
  if not it then return {id, absent(id), 0, 0, false, {}, {}, '', {false, false, false, {}}} end
  if live(it, now) and it.cb ~= actor then return refusal('claim', it, config, {it.cx, actor == ''}) end
  if fence > 0 and fence ~= (it.f or 0) then return refusal('stale_fence', it, config) end
  local schema = schema_of(it, config)
  local to, problem = target_role(it, trigger, schema)
  if not to then return refusal(problem, it, config) end
  local forward = it.role ~= BLOCKED and to ~= BLOCKED and to > it.role
  if forward and it.nb then return refusal('dependencies', it, config) end
  if schema and (trigger == 'start' or trigger == 'complete') then
    local missing = missing_notes(it, schema, trigger == 'start' and it.role or nil)
    if #missing > 0 then return refusal('gate', it, config, missing) end
  end
  local from = it.role
  local by = {id = actor, actor = actor_json, verification = verification, summary = summary}
  local open = change_role(it, to, trigger, label_for(it, to, trigger, run), run, by)
  local cascades = {}
  cascade(it, trigger, run, cascades, open)
  local unblocked, inputs = named(open), schema_inputs(it, config)
  return {it.id, '', from, to, it.lb or false, cascades, unblocked, title(it), inputs, verification}
end

local MARKS = 500 -- places by tag that a run gives the items it moves
local results = {}
for n, element in ipairs(cmsgpack.unpack(transitions)) do
  if edges_moved > AT_ONCE or marks_written > MARKS then break end
  results[n] = advance(unpack(element))
end
serve(now, events_max)
return with_debts(remember(request, fingerprint, 'D', cmsgpack.pack(results), keep_ms))
