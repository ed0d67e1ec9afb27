-- Idempotency, in the same operation as the effect. A record is `fingerprint .. state .. reply`: 16 hex digits over
-- tool and arguments, one letter (D done, P partial: a long call that goes on in slices, H handed over: the caller may
-- be gone, and then the effect is taken back), then the packed reply. The record and the effect are written in one call
-- of an operation, so a front-end killed in between costs nothing: the retry finds the record from any other process.
-- A `request` is {id ('' = the caller gave none), fingerprint, keep_ms}.
-- owns: request
local requests = {}

local STATE_AT = 16 -- of the letter in a record

-- The stored reply and its state letter; nil where there is none; nil and an error reply where the request id was used
-- with other arguments. An operation that answers with a stored reply returns `{stored}`: by that, Store.run counts
-- replays, and runs the operation's `rest` if it has one.
function requests.recall(run, request)
  if request.id == '' then return nil end
  local record = redis.call('GET', run.keys.request .. request.id)
  if not record then return nil end
  if string.sub(record, 1, 16) ~= request.fingerprint then return nil, redis.error_reply('FLEET REQUEST_ID_REUSED') end
  return string.sub(record, 18), string.sub(record, 17, 17)
end

-- Whether a request has been answered, and not in part.
function requests.is_answered(run, request)
  local stored, state = requests.recall(run, request)
  return stored and state ~= 'P'
end

-- Keeps a packed reply, and hands it back.
function requests.remember(run, request, state, reply)
  if request.id ~= '' then
    redis.call('PSETEX', run.keys.request .. request.id, request.keep_ms, request.fingerprint .. state .. reply)
  end
  return reply
end

-- Replaces the packed reply of a record of state H, which is kept as long as before.
function requests.replace(run, request, reply)
  redis.call('SET', run.keys.request .. request.id, request.fingerprint .. 'H' .. reply, 'KEEPTTL')
end

-- Makes the reply of a record final.
function requests.finish(run, id)
  redis.call('SETRANGE', run.keys.request .. id, STATE_AT, 'D')
end

-- Deletes records by a list of their ids.
function requests.forget(run, ids)
  for n, id in ipairs(ids) do ids[n] = run.keys.request .. id end
  redis.call('DEL', unpack(ids))
end

-- Keeps a text for a while (ms) under an id that no request has.
function requests.keep(run, id, keep_ms, text)
  redis.call('PSETEX', run.keys.request .. id, keep_ms, text)
end

-- Notes an id for a while (ms); false if it is noted.
function requests.note_once(run, id, keep_ms)
  return redis.call('SET', run.keys.request .. id, '', 'NX', 'PX', keep_ms)
end

return requests
