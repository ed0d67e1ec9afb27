--[[
purpose:   Makes the items of a template for some of its times, and says when to look at it next.
guarantee: Each time is dealt with once, by any number of processes: only if the template is still what the caller has
           seen, its times are dealt with up to the same one, it makes items, and what is to be dealt with comes after.
args:      request run.events_max run.terms run.config run.labels id recurs dealt times upto look overlap
           recurs, dealt = as expire_claims has shown them; times = packed list of {id of the new item, time (ms)},
           oldest first; upto = up to when times are dealt with then (ms); look = when to look again (ms), 0: never;
           overlap = 1: also while an earlier item of the template is open
reply:     {how many were made, how many were not because an earlier one is open}; -1 for the first: the template has
           changed
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED NOT_AFTER
--]]
local change_by_schema = require 'change_by_schema'
local creation = require 'creation'
local due_times = require 'due_times'
local items = require 'items'

-- The specs of the items (creation.lua).
local function specs_of(run, template, times)
  local texts, specs = {}, {}
  local flat = redis.call('HGETALL', run.keys.text .. template.id)
  for n = 1, #flat, 2 do texts[flat[n]] = flat[n + 1] end
  for n, one in ipairs(times) do specs[n] = due_times.occurrence(template, texts, one[1], one[2]) end
  return specs
end

-- Whether times are in order, after what is dealt with and not after what will be (ms).
local function are_after(times, dealt, upto)
  local last = tonumber(dealt)
  for _, one in ipairs(times) do
    if one[2] <= last then return false end
    last = one[2]
  end
  return last <= tonumber(upto)
end

return function(run, request, id, recurs, dealt, times, upto, look, overlap)
  return change_by_schema(run, request, {}, function()
    local template, made, skipped = items.load(run, id), 0, 0
    if not template or template.rc ~= recurs or template.rn ~= dealt or not due_times.makes_items(template) then
      return {-1, 0}, false
    end
    times = cmsgpack.unpack(times)
    if not are_after(times, dealt, upto) then return redis.error_reply('FLEET NOT_AFTER') end
    local specs = specs_of(run, template, times)
    if specs[1] then creation.begin(run, specs) end
    for _, spec in ipairs(specs) do
      if overlap == '0' and due_times.has_open(run, template) then
        skipped = skipped + 1
      elseif creation.create(run, spec, run.now) then
        made = made + 1
      end
    end
    if specs[1] then creation.index_new(run) end
    due_times.look_at(run, template, upto, tonumber(look))
    items.save(run, template)
    return {made, skipped}, false
  end)
end
