-- @include keys
-- Each change is appended to the project's capped event stream: the source of change feeds, waiting
-- claims and after-the-fact proofs. Stream ids carry the server's time in milliseconds.
local function emit(cap, kind, id, ...)
  return redis.call('XADD', K_EVENTS, 'MAXLEN', '~', cap, '*', 'k', kind, 'i', id, ...)
end
