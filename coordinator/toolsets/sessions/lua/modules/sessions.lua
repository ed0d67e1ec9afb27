-- A session: one hash, the list of its trace, and the hash of its answered checkpoints; all three live
-- `ttl_ms` longer with each call. Fields of the first (all times in ms):
--   la agent of the last call
--   w workflow  v its version  a activity  c condition of the last transition  x when its time to live was renewed
--   q rises with each call that returns a new token: the order of a session's tokens
--   n activities entered  d activities left, packed  z '1' completed
--   b pending checkpoint  by, bq, bt of the last yield: yielded at, `q` of its handle, its call
--   r key of the answer not resumed from yet, l key of the last answer
--   rl key of the answer resumed from last, rt that call
--   tb events cut off the front of the trace  tc events in trace tokens so far  tp, tk, tr `tc` before the last
--   transition, its call, and the digest of its report
--   ps pw pa pv parent: session, workflow, activity, version
--   i work item  f fence and h holder of the claim shown  hs agents that have shown one, packed  hq `q` when the
--   session was taken over under a new claim, if it was
-- session_index has all sessions, scored by when they last changed; those with an open checkpoint are marked
-- (recent.lua). Answers are kept by activity/checkpoint, each as JSON: [when, n and q then, answer].
-- Every operation gets run.sid, the session; run.aid, run.act and run.seq, agent, activity and sequence of the token
-- shown; run.entry, the trace entry of the call in JSON; and run.ttl_ms. A session is a table `s` of these fields and
-- its id.
-- owns: session session_trace session_answers session_item session_index
local clock = require 'clock'
local recent = require 'recent'

local sessions = {}

local TRACE_MAX = 5000 -- events; the oldest are cut off
local TRIM_EVERY = 16

-- The session, or nil.
function sessions.find(run, id)
  redis.setresp(3) -- returns fields as a table instead of a list
  local s = redis.call('HGETALL', run.keys.session .. id).map
  redis.setresp(2)
  if not s.w then return nil end
  s.id = id
  return s
end

-- Sets fields from pairs, in one command; values are strings.
function sessions.set(run, s, ...)
  redis.call('HSET', run.keys.session .. s.id, ...)
  local given = {...}
  for n = 1, #given, 2 do s[given[n]] = given[n + 1] end
end

-- Removes fields.
function sessions.unset(run, s, ...)
  redis.call('HDEL', run.keys.session .. s.id, ...)
  for _, field in ipairs({...}) do s[field] = nil end
end

-- Lists the session as changed now.
function sessions.list(run, s)
  redis.call('ZADD', run.keys.session_index, run.now + (s.b and recent.MARK or 0), s.id)
end

-- Takes sessions that have expired off the list; one call in 16 does it, by the clock.
function sessions.trim_list(run)
  if run.now % TRIM_EVERY ~= 0 then return end
  for _, mark in ipairs({0, recent.MARK}) do
    redis.call('ZREMRANGEBYSCORE', run.keys.session_index, mark, '(' .. clock.whole(mark + run.now - run.ttl_ms))
  end
end

-- A new session lives, as long as nobody renews it, for `ttl_ms`.
function sessions.begin(run, s)
  redis.call('PEXPIRE', run.keys.session .. s.id, run.ttl_ms)
end

-- Makes a bound session the one to resume for its item.
function sessions.point(run, s)
  redis.call('HSET', run.keys.session_item .. s.i, s.w, s.id, '', s.id)
  redis.call('PEXPIRE', run.keys.session_item .. s.i, run.ttl_ms)
end

-- Keeps an answer (JSON) by activity/checkpoint.
function sessions.answer(run, s, place, answer)
  local answers = run.keys.session_answers .. s.id
  redis.call('HSET', answers, place, answer)
  if redis.call('PTTL', answers) < 0 then redis.call('PEXPIRE', answers, run.ttl_ms) end
end

-- Renews the time to live, at most once per fiftieth of it, because each renewal is an extra write.
function sessions.keep(run, s)
  if run.now - s.x < run.ttl_ms / 50 then return end
  sessions.set(run, s, 'x', clock.whole(run.now))
  redis.call('PEXPIRE', run.keys.session .. s.id, run.ttl_ms)
  redis.call('PEXPIRE', run.keys.session_trace .. s.id, run.ttl_ms)
  redis.call('PEXPIRE', run.keys.session_answers .. s.id, run.ttl_ms)
  if s.i then redis.call('PEXPIRE', run.keys.session_item .. s.i, run.ttl_ms) end
  sessions.list(run, s)
end

-- Appends the call to the trace as JSON: [when, error or '', where the session really is or '', entry].
function sessions.note(run, s, problem, text)
  local moved = run.act ~= '' and run.act ~= s.a and s.a or ''
  local event = '[' .. clock.whole(run.now) .. ',' .. (problem and cjson.encode(problem) or '""') .. ','
    .. (moved ~= '' and cjson.encode(moved) or '""') .. ',' .. (text or run.entry) .. ']'
  local length = redis.call('RPUSH', run.keys.session_trace .. s.id, event)
  if length == 1 then redis.call('PEXPIRE', run.keys.session_trace .. s.id, run.ttl_ms) end
  if length > TRACE_MAX then
    redis.call('LPOP', run.keys.session_trace .. s.id)
    s.tb = redis.call('HINCRBY', run.keys.session .. s.id, 'tb', 1)
  end
end

-- The call gets a new token; further fields are set in the same command.
function sessions.advance(run, s, ...)
  sessions.set(run, s, 'q', clock.whole(s.q + 1), 'la', run.aid, ...)
  sessions.keep(run, s)
end

-- Identifies the call by its token: a retry after a lost answer has the same id.
function sessions.this_call(run, what)
  return run.seq .. ' ' .. run.aid .. ' ' .. (what or '')
end

-- The reply of an operation: `outcome`, the session's position, and `detail`.
function sessions.reply(run, s, outcome, detail)
  return cmsgpack.pack({outcome, run.now, tonumber(s.q), s.a, s.c, s.b or '', s.z == '1', detail or false})
end

-- A refusal, recorded in the trace.
function sessions.refuse(run, s, outcome, problem, detail)
  sessions.note(run, s, problem)
  return sessions.reply(run, s, outcome, detail)
end

return sessions
