-- @include keys
-- @include clock
-- @include events
-- A session: one hash, the list of its trace, and the hash of its answered checkpoints; all three live
-- `ttl_ms` longer with each call. Fields of the first (all times in ms):
--   w workflow  v its version  a activity  c condition of the last transition  x when its time to live was renewed
--   q rises by one with each call that is answered with a new token: so tokens of one session have an order
--   n activities entered  d activities left, packed  z '1' completed
--   b checkpoint that waits for its answer  by, bq, bt of the last one: yielded at, `q` of its handle, call that did
--   r where among the answers the one is that nobody has resumed from, l where the last one is
--   rl the answer that was resumed from last, rt that call
--   tb events cut off the front of the trace  tc up to where it is in trace tokens  tp, tk, tr `tc` before the last
--   transition, the call that made it, and the digest of what the call said about it
--   ps pw pa pv parent: session, workflow, activity, version
--   i work item  f fence and h holder of the claim shown  hs agents that have shown one, packed  hq `q` when the
--   session was taken over under a new claim, if it was
-- Answers are kept by activity/checkpoint, each as JSON: [when, n and q then, answer].
-- Scripts that include this file begin with the arguments `sid aid act seq entry ttl_ms events_max`: the session,
-- then agent, activity and sequence of the token shown, and the trace entry of the call in JSON.

local TRACE_MAX = 5000
local now = server_time()

-- The session, or nil.
local function find(id)
  redis.setresp(3) -- fields come as a table, not as a list to be made one
  local s = redis.call('HGETALL', K_SESSION .. id).map
  redis.setresp(2)
  if not s.w then return nil end
  s.id = id
  return s
end

-- Sets fields from pairs, in one command; values are strings.
local function set(s, ...)
  redis.call('HSET', K_SESSION .. s.id, ...)
  local given = {...}
  for n = 1, #given, 2 do s[given[n]] = given[n + 1] end
end

local function unset(s, ...)
  redis.call('HDEL', K_SESSION .. s.id, ...)
  for _, field in ipairs({...}) do s[field] = nil end
end

-- Renews the time to live, at most once in a fiftieth of it: each renewal is a write of its own.
local function keep(s)
  if now - s.x < ttl_ms / 50 then return end
  set(s, 'x', whole(now))
  redis.call('PEXPIRE', K_SESSION .. s.id, ttl_ms)
  redis.call('PEXPIRE', K_SESSION_TRACE .. s.id, ttl_ms)
  redis.call('PEXPIRE', K_SESSION_ANSWERS .. s.id, ttl_ms)
  if s.i then redis.call('PEXPIRE', K_SESSION_ITEM .. s.i, ttl_ms) end
end

-- Appends the call to the trace as JSON: [when, error or '', where the session really is or '', entry].
local function note(s, problem, text)
  local moved = act ~= '' and act ~= s.a and s.a or ''
  local event = '[' .. whole(now) .. ',' .. (problem and cjson.encode(problem) or '""') .. ','
    .. (moved ~= '' and cjson.encode(moved) or '""') .. ',' .. (text or entry) .. ']'
  local length = redis.call('RPUSH', K_SESSION_TRACE .. s.id, event)
  if length == 1 then redis.call('PEXPIRE', K_SESSION_TRACE .. s.id, ttl_ms) end
  if length > TRACE_MAX then
    redis.call('LPOP', K_SESSION_TRACE .. s.id)
    s.tb = redis.call('HINCRBY', K_SESSION .. s.id, 'tb', 1)
  end
end

-- The call gets a new token; further fields are set in the same command.
local function advance(s, ...)
  set(s, 'q', whole(s.q + 1), ...)
  keep(s)
end

-- Names the call by the token it showed: the same call made again, because its answer was lost, has the same name.
local function this_call(what)
  return seq .. ' ' .. aid .. ' ' .. (what or '')
end

local function reply(s, outcome, detail)
  return cmsgpack.pack({outcome, now, tonumber(s.q), s.a, s.c, s.b or '', s.z == '1', detail or false})
end

-- A refusal that the trace shows.
local function refuse(s, outcome, problem, detail)
  note(s, problem)
  return reply(s, outcome, detail)
end
