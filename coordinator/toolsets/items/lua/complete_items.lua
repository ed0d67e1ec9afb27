--[[
purpose:   Completes or cancels items in a given order, a bounded number per run.
guarantee: Each item is checked and changed in one step: claim, dependencies, gate, role. What depends on
           an item that was refused is skipped. Each run is kept under a record of its own, the order in that
           of the first, so any process can go on from the last one. Parents do not follow (seed 004:
           the root is never completed).
args:      request fingerprint keep_ms events_max config labels trigger actor who budget plan position skipped
           who = packed {actor, verification}; plan = ids one after the other, 32 characters each;
           position, skipped (packed) = of the run before, or 1 and none
reply:     {done, next position, results, skipped ids, plan of the first run or ''}
           results = JSON list of {id, title, outcome, detail}
           outcome: applied (detail label), gate (missing keys), skipped (reason), claimed, waiting (count)
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

local run = {now = server_time(), cap = events_max, config = config, labels = labels}
if not settle(run.now) then return redis.error_reply('FLEET UNSETTLED') end
local names = cmsgpack.unpack(who)
local by = {id = actor, actor = names[1], verification = names[2], summary = 'complete_tree'}
local first, skip, planned = tonumber(position), {}, nil
local skips = cmsgpack.unpack(skipped)
for _, id in ipairs(skips) do skip[id] = true end

local function skip_dependents(it)
  if not planned then
    planned = {}
    for id in string.gmatch(plan, string.rep('.', 32)) do planned[id] = true end
  end
  each_edge(it.id, function(code, other)
    edges_moved = edges_moved + 1
    if blocks_other(code) and planned[other] and not skip[other] then
      skip[other] = true
      skips[#skips + 1] = other
    end
  end)
end

-- The outcome, its detail, and whether what waits for the item is to be skipped.
local function complete(it)
  if skip[it.id] then return 'skipped', 'dependency gate failed', true end
  if it.role == TERMINAL then return 'skipped', 'already terminal', false end
  if live(it, run.now) and it.cb ~= actor then return 'claimed', it.cx, true end
  local to = target_role(it, trigger, nil)
  if not to then return 'skipped', "Cannot transition: use 'resume' first", false end
  if trigger == 'complete' then
    if it.nb then return 'waiting', tonumber(it.nb), true end
    local schema = schema_of(it, config)
    local missing = schema and missing_notes(it, schema, nil) or {}
    if #missing > 0 then return 'gate', missing, true end
  end
  local label = label_for(it, to, trigger, run)
  change_role(it, to, trigger, label, run, by)
  return 'applied', label, false
end

sweep(run.now, events_max, SWEEP_BATCH)
local found, at, last = {}, first, math.min(#plan / 32, first + budget - 1)
while at <= last and edges_moved <= AT_ONCE do
  local it = load(string.sub(plan, 32 * at - 31, 32 * at))
  if it then
    local outcome, detail, spreads = complete(it)
    found[#found + 1] = {it.id, title(it), outcome, detail}
    if spreads then skip_dependents(it) end
  end
  at = at + 1
end
local results = found[1] and cjson.encode(found) or '[]'
local reply = cmsgpack.pack({32 * at > #plan, at, results, skips, first == 1 and plan or ''})
serve(run.now, events_max)
return with_debts(remember(request, fingerprint, 'D', reply, keep_ms))
