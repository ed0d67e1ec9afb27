-- @include handoff
-- @include audit
-- @include waiters
-- An instance in Redis: a run of steps (include/step.lua of steps), which besides has
--   h bundle  z state  v version  t started at  d deadline  k nesting  m parent: instance and operation
--   y ms that a session is kept  c operation under way, with  ct its transition  cs since  a its step  tr its trace
--   b the sub-workflow that it waits for;  x outcome  e ended at.  Its status is r running or e ended.
-- K_GATE_DATA: c context  n input  v evidence by kind  f last failure (all JSON)  fa its time
--   o open approvals  g all approvals (ids with a blank behind each)
-- An operation is its correlation id; whoever carries it out shows it, so it is the instance's fence.

local EVIDENCE = 200 -- kept of each instance

local function load_instance(id)
  local v = redis.call('HMGET', K_RUN .. id, 'o', 's', 'v', 'z', 'c', 'a', 'b', 'm', 'q', 'h', 'd', 'n')
  if v[1] ~= 'gateway' then return nil end
  return {id = id, s = v[2], v = tonumber(v[3]), z = v[4], c = v[5] or nil, a = v[6] or nil, b = v[7] or nil,
    m = v[8] or nil, q = v[9] or nil, h = v[10], d = v[11] or nil, n = v[12]}
end

-- The operation is over.
local function finish(inst, ending, keep_ms)
  redis.call('SET', K_GATE_ENDING .. inst.c, ending, 'PX', keep_ms)
  redis.call('HDEL', K_RUN .. inst.id, 'c', 'ct', 'cs', 'a', 'b', 'tr')
  inst.c, inst.a, inst.b = nil, nil, nil
  wake(inst.id)
end

-- Ends a step wherever it is; who runs it is told to stop.
local function stop_step(id)
  local st = load_step(id)
  if not st then return end
  interrupt(st)
  discard(st)
end

-- What a sub-workflow hands to the one that waits for it, as JSON; nil: it has not ended.
local function result_of(id)
  local v = redis.call('HMGET', K_RUN .. id, 'o', 's', 'z', 'x')
  if v[1] ~= 'gateway' then return '{"outcome":""}' end
  if v[2] == 'r' then return nil end
  return '{"state":' .. cjson.encode(v[3]) .. ',"outcome":' .. cjson.encode(v[4] or '') .. ',"context":' ..
    (redis.call('HGET', K_GATE_DATA .. id, 'c') or '{}') .. '}'
end

-- Opens the step that has to be over before the operation goes on: see NextStep in rules/task.py.
local function open_step(inst, kind, task, delay, expires, child)
  local number = redis.call('HINCRBY', K_RUN .. inst.id, 'i', 1)
  local st = {id = inst.id .. '_' .. number, r = inst.id, k = inst.c, f = '1', e = at, q = list_of(inst.q), z = task}
  inst.a = st.id
  redis.call('HSET', K_RUN .. inst.id, 'a', st.id)
  if kind == 'child' then
    st.a = result_of(child)
    redis.call('HSET', K_RUN .. inst.id, 'b', child)
    if not st.a then
      st.s, st.b, st.t = 'g', at, 'g'
      save_step(st)
      if expires > 0 then redis.call('ZADD', K_STEP_TIMERS, whole(now + expires), st.id) end
      return
    end
  end
  make_ready_after(st, delay)
end

-- A sub-workflow has ended: lets the operation go on that waits for it, if any does.
local function resume_parent(inst)
  local parent, op = string.match(inst.m or '', '^(%S+) (%S+)$')
  local waiting = parent and load_instance(parent)
  if not waiting or waiting.c ~= op or waiting.b ~= inst.id then return end
  local st = load_step(waiting.a)
  if st and st.s == 'g' then
    detach(st)
    st.a, st.t = result_of(inst.id), nil
    make_ready(st)
  end
end
