--[[
purpose:   Completes or cancels items in a given order, a bounded number per run.
guarantee: Each item is checked and changed in one step: claim, dependencies, gate, role. Items that depend on a
           refused item are skipped. Each run has a record of its own, and the first run's record has the order, so
           any process can go on after the last run. Parents do not follow (seed 004: the root is never completed).
args:      request fingerprint keep_ms events_max config labels trigger actor who budget plan position skipped
           who = packed {actor, verification}; plan = ids one after the other, 32 characters each (no id: not found);
           position, skipped (packed) = from the reply of the last run, or 1 and none
reply:     {done, next position, results, skipped ids, plan of the first run or ''}
           results = JSON list of {id, title, outcome, detail}
           outcome: applied (detail label), gate (missing keys, phases), skipped (reason), claimed, waiting (count),
           not_found
           (plan and results are texts, which pass through at little cost)
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
-- @include clock
-- @include idempotency
-- @include claims
-- @include transition
-- @include settle

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end
if config_missing(config) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end

local run = {now = server_time(), events_max = events_max, config = config, labels = labels}
if not settle_debts(run.now) then return redis.error_reply('FLEET UNSETTLED') end
local names = cmsgpack.unpack(who)
local author = {id = actor, actor = names[1], verification = names[2], summary = 'complete_tree'}
local first, skip, planned = tonumber(position), {}, nil
local skips = cmsgpack.unpack(skipped)
for _, id in ipairs(skips) do skip[id] = true end

local function skip_dependents(item)
  if not planned then
    planned = {}
    for id in string.gmatch(plan, string.rep('.', 32)) do planned[id] = true end
  end
  each_edge(item.id, function(code, other)
    edges_visited = edges_visited + 1
    if blocks_other(code) and planned[other] and not skip[other] then
      skip[other] = true
      skips[#skips + 1] = other
    end
  end)
end

-- The outcome, its detail, and whether what waits for the item is to be skipped.
local function complete(item)
  if skip[item.id] then return 'skipped', 'dependency gate failed', true end
  if item.role == TERMINAL then return 'skipped', 'already terminal', false end
  if is_live(item, run.now) and item.holder ~= actor then return 'claimed', item.expires, true end
  local to = target_role(item, trigger, nil)
  if not to then return 'skipped', "Cannot transition: use 'resume' first", false end
  if trigger == 'complete' then
    if item.nb then return 'waiting', tonumber(item.nb), true end
    local schema = schema_of(item, config)
    if schema then
      local missing, phases = missing_notes(item, schema, nil)
      if #missing > 0 then return 'gate', {missing, phases}, true end
    end
  end
  local label = label_after(item, to, trigger, run)
  change_role(item, to, trigger, label, run, author)
  return 'applied', label, false
end

sweep_claims(run.now, events_max, SWEEP_BATCH)
local found, at, last = {}, first, math.min(#plan / 32, first + budget - 1)
while at <= last and edges_visited <= EDGES_AT_ONCE do
  local id = string.sub(plan, 32 * at - 31, 32 * at)
  local item = load_item(id)
  if item then
    local outcome, detail, spreads = complete(item)
    found[#found + 1] = {item.id, title_of(item), outcome, detail}
    if spreads then skip_dependents(item) end
  else
    found[#found + 1] = {id, '', 'not_found', ''}
  end
  at = at + 1
end
local results = found[1] and cjson.encode(found) or '[]'
local reply = cmsgpack.pack({32 * at > #plan, at, results, skips, first == 1 and plan or ''})
serve_waiters(run.now, events_max)
return with_debts(remember(request, fingerprint, 'D', reply, keep_ms))
