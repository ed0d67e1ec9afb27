--[[
purpose:   Finds the best items of one role that can be worked on, in the selector's order; on request also those held
           by claims.
guarantee: Reads the head of the ranked index: O(log n + limit) at any number of items, if the selector has at most one
           filter. Items below held ones do not change that, if the selector has only role, priority, complexity,
           parent or ancestor. Expired claims are put back first, in a bounded batch; in a larger one if too few
           items are ready.
args:      events_max held packed_selector limit ancestors after
           held = 0: ready items, except those below a held one; 1: all held and ready items;
           packed_selector = packed (include/filters.lua); ancestors = 1 or 0; after = cursor of the last run,
           or ''; the detail of NOT_FOUND is the field that names no item
reply:     {rows, more, after}; row = {id, title, role, priority, complexity, summary, tags, parent,
           claimed, ancestors}; more = whether to go on, with the cursor `after`. If that is '', the caller begins
           anew, without these rows: claims have expired whose items may match
errors:    NOT_FOUND UNSETTLED
full:      it reads; the few bytes that it writes do not matter
--]]
-- @include clock
-- @include select
-- @include settle
-- @include ancestors

local SCAN_MAX = 200 -- of candidates that are looked at in one run, and of expired claims that are put back
local now, wanted, selector = server_time(), tonumber(limit), cmsgpack.unpack(packed_selector)
for _, field in ipairs({'parent', 'ancestor'}) do
  if selector[field] and not load_item(selector[field]) then return redis.error_reply('FLEET NOT_FOUND ' .. field) end
end

if not settle_debts(now) then return redis.error_reply('FLEET UNSETTLED') end
local rows

local function row(item)
  return {
    item.id, title_of(item), item.role, priority_of(item.score), complexity_of(item.score), text_of(item, 's') or '',
    item.g or false, item.pa or false, is_live(item, now) and true or false,
    ancestors == '1' and ancestors_of(item) or {},
  }
end

local function look()
  rows = {}
  local classes = claimable_classes(selector, true)
  if held == '1' then classes[#classes + 1] = selector.role * STATES + HELD end
  return select_items(selector, classes, held == '0' and '', now, parse_cursor(after), SCAN_MAX, wanted, function(item)
    if not item.nb then rows[#rows + 1] = row(item) end
    return #rows == wanted
  end)
end

local swept = sweep_claims(now, events_max, SWEEP_BATCH)
serve_waiters(now, events_max)
local stopped = look()
if #rows < wanted and not stopped and not swept then
  swept = sweep_claims(now, events_max, SCAN_MAX)
  serve_waiters(now, events_max)
  stopped = look()
end
if #rows == wanted or (swept and not stopped) then return with_debts(cmsgpack.pack({rows, false, ''})) end
return with_debts(cmsgpack.pack({rows, true, format_cursor(stopped)}))
