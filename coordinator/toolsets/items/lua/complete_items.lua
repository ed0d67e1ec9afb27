--[[
purpose:   Completes or cancels items in a given order, a bounded number per run.
guarantee: Each item is checked and changed in one step: claim, dependencies, gate, role. What depends on
           an item that was refused is skipped. Where a run ends early the progress, order included, is
           kept under the request, and any process can go on from it. Parents do not follow (seed 004:
           the root is never completed).
args:      request fingerprint keep_ms events_max config labels trigger actor who budget plan state
           who = packed {actor, verification}; plan = ids one after the other, 32 characters each;
           state = packed progress of the run before or ''
reply:     {done, position, results, skip ids, plan}; results = for each run a JSON list of {id, title, outcome, detail}
           outcome: applied (detail label), gate (missing keys), skipped (reason), claimed, waiting (count)
           (plan and results are texts, so that a run costs what it does and not how long the plan is)
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN
--]]
-- @include clock
-- @include idempotency
-- @include claims
-- @include transition
-- @include serve

local stored, phase, refused = recall(request, fingerprint)
if refused then return refused end
if stored and phase == 'D' then return {stored} end
if config_missing(config) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end
if stored then state = stored end

local run = {now = server_time(), cap = events_max, config = config, labels = labels}
local names = cmsgpack.unpack(who)
local by = {id = actor, actor = names[1], verification = names[2], summary = 'complete_tree'}
local done, position, results, skipped, order = false, 1, {}, {}, plan
if state ~= '' then done, position, results, skipped, order = unpack(cmsgpack.unpack(state)) end
local skip, planned = {}, nil
for _, id in ipairs(skipped) do skip[id] = true end

local function skip_dependents(it)
  if not planned then
    planned = {}
    for id in string.gmatch(order, string.rep('.', 32)) do planned[id] = true end
  end
  each_edge(it.id, function(code, other)
    edges_moved = edges_moved + 1
    if blocks_other(code) and planned[other] and not skip[other] then
      skip[other] = true
      skipped[#skipped + 1] = other
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
local found, last = {}, math.min(#order / 32, position + budget - 1)
while position <= last and edges_moved <= EDGES_A_RUN do
  local it = load(string.sub(order, 32 * position - 31, 32 * position))
  if it then
    local outcome, detail, spreads = complete(it)
    found[#found + 1] = {it.id, title(it), outcome, detail}
    if spreads then skip_dependents(it) end
  end
  position = position + 1
end
if found[1] then results[#results + 1] = cjson.encode(found) end

done = 32 * position > #order
local reply = cmsgpack.pack({done, position, results, skipped, done and '' or order})
serve(run.now, events_max)
return remember(request, fingerprint, done and 'D' or 'P', reply, keep_ms)
