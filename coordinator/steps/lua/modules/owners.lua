-- The hash of an owner of steps (steps.lua), and what it was created with (run_spec).
-- owns: run run_spec
local steps = require 'steps'

local owners = {}

-- Stores a new owner: fields and values in turn.
function owners.create(run, id, fields, spec)
  redis.call('HSET', run.keys.run .. id, unpack(fields))
  redis.call('SET', run.keys.run_spec .. id, spec)
end

function owners.set(run, id, ...)
  redis.call('HSET', run.keys.run .. id, ...)
end

function owners.unset(run, id, ...)
  redis.call('HDEL', run.keys.run .. id, ...)
end

-- Adds to a field; returns its new value.
function owners.add(run, id, field, by)
  return redis.call('HINCRBY', run.keys.run .. id, field, by)
end

-- Notes the worker that has the spec of an owner, of the project whose keys begin with `prefix`.
function owners.set_worker(run, id, prefix, worker)
  redis.call('HSET', steps.key_in(run, prefix, run.keys.run) .. id, 'w', worker)
end

function owners.forget(run, id)
  redis.call('UNLINK', run.keys.run .. id, run.keys.run_spec .. id)
end

return owners
