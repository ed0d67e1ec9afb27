-- The definitions of instances: gate_bundle .. hash has the text, and gate_bundles how many instances have it.
-- owns: gate_bundle gate_bundles
local bundles = {}

-- Adds a reference to the definitions, which are stored with the first. Returns whether they are stored.
function bundles.keep(run, bundle, text)
  if redis.call('EXISTS', run.keys.gate_bundle .. bundle) == 0 then
    if text == '' then return false end
    redis.call('SET', run.keys.gate_bundle .. bundle, text)
  end
  redis.call('HINCRBY', run.keys.gate_bundles, bundle, 1)
  return true
end

-- Removes a reference; the definitions go with the last one.
function bundles.release(run, bundle)
  if redis.call('HINCRBY', run.keys.gate_bundles, bundle, -1) > 0 then return end
  redis.call('HDEL', run.keys.gate_bundles, bundle)
  redis.call('UNLINK', run.keys.gate_bundle .. bundle)
end

return bundles
