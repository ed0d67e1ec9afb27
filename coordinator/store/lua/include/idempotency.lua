-- @include keys
-- Idempotency inside the script that has the effect. A record is `fingerprint .. state .. reply`: 16 hex digits over tool
-- and arguments, one letter (D done, P partial: a long call that goes on in slices, H handed over: the caller may be
-- gone, and then the effect is taken back), then the packed reply. The record and the effect are written in one script,
-- so a front-end killed in between costs nothing: the retry finds the record from any other process.

-- The stored reply of `request` ('' = the caller gave none), its state letter, and an error reply if the request id was
-- used with other arguments. A script that answers with a stored reply returns `{stored}`: by that, Store.run counts
-- replays, and runs the script's rest if it has one.
local function recall(request, fingerprint)
  if request == '' then return nil end
  local record = redis.call('GET', K_REQUEST .. request)
  if not record then return nil end
  if string.sub(record, 1, 16) ~= fingerprint then
    return nil, nil, redis.error_reply('FLEET REQUEST_ID_REUSED')
  end
  return string.sub(record, 18), string.sub(record, 17, 17)
end

-- Keeps `reply` for `keep_ms` and hands it back, so that a script can end with `return remember(...)`.
local function remember(request, fingerprint, state, reply, keep_ms)
  if request ~= '' then
    redis.call('PSETEX', K_REQUEST .. request, keep_ms, fingerprint .. state .. reply)
  end
  return reply
end
