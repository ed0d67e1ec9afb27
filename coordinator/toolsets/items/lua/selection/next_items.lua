--[[
purpose:   Finds the best items of one role that can be worked on, in the selector's order; on request also those
           held by claims.
guarantee: Reads the head of the ranked index: O(log n + limit) at any number of items, if the selector has at most one
           filter. Items below held ones do not change that, if the selector has only role, priority, complexity,
           parent or ancestor. Expired claims are put back first, in a bounded batch; in a larger one if too few
           items are ready.
args:      run.events_max run.terms held packed_selector limit with_ancestors after
           held = 0: ready items, except those below a held one; 1: all held and ready items;
           packed_selector = packed (selectors.lua); with_ancestors = 1 or 0; after = cursor of the last call,
           or ''; the detail of NOT_FOUND is the field with the unknown item
reply:     {list of Next (store/next.py), more, after}; more = whether to continue, with the cursor `after`. If that is
           '', the caller starts over, without these rows: claims have expired whose items may match
errors:    NOT_FOUND UNSETTLED
full:      a read that writes only a few bytes
--]]
local claims = require 'claims'
local classes = require 'classes'
local debts = require 'debts'
local expiry = require 'expiry'
local items = require 'items'
local selection = require 'selection'
local selectors = require 'selectors'
local serve = require 'serve'
local settle = require 'settle'
local views = require 'views'

local HELD, STATES = classes.HELD, classes.STATES
local SWEEP_BATCH = expiry.SWEEP_BATCH

local SCAN_MAX = 200 -- candidates checked per call, and expired claims put back

local function row_of(run, item, with_ancestors)
  local said = views.said(run, item)
  said.t, said.s = items.title_of(run, item), items.text_of(run, item, 's') or nil
  return {
    item.id, item.role, said, claims.is_live(run, item) and true or false,
    with_ancestors and views.ancestors(run, item.pa) or {},
  }
end

-- Puts up to `budget` expired claims back, and reads up to `limit` rows from `after` on. Returns them, where the search
-- stopped (nil at its end), and whether no expired claims are left.
local function look(run, budget, held, selector, limit, with_ancestors, after)
  local rows, none_left = {}, expiry.sweep(run, budget)
  serve.parked_calls(run)
  local class_list = selectors.claimable_classes(selector, true)
  if held then class_list[#class_list + 1] = selector.role * STATES + HELD end
  local search = {selector = selector, agent = not held and '', wanted = limit} -- for nobody: not below held ones
  local keeps_from_work = selector.parents and classes.is_kept_back or classes.waits -- those that are held, too
  local stopped = selection.select(run, search, class_list, after, SCAN_MAX, function(item)
    if not keeps_from_work(item) then rows[#rows + 1] = row_of(run, item, with_ancestors) end
    return #rows == limit
  end)
  return rows, stopped, none_left
end

return function(run, held, packed_selector, limit, with_ancestors, after)
  local selector = cmsgpack.unpack(packed_selector)
  local missing = selection.missing_field(run, selector)
  if missing then return redis.error_reply('FLEET NOT_FOUND ' .. missing) end
  local looked_for = expiry.looked_for(run.keys.prefix)
  if redis.call('EXISTS', unpack(looked_for)) == 0 then
    run.absent = looked_for
  elseif not settle.debts(run) then
    return redis.error_reply('FLEET UNSETTLED')
  end

  local wanted, from = tonumber(limit), selection.parse_cursor(after)
  local rows, stopped, none_left
  for _, budget in ipairs({SWEEP_BATCH, SCAN_MAX}) do
    rows, stopped, none_left = look(run, budget, held == '1', selector, wanted, with_ancestors == '1', from)
    if #rows == wanted or stopped or none_left then break end
  end
  local more = #rows < wanted and (stopped ~= nil or not none_left)
  return debts.attach(run, cmsgpack.pack({rows, more, more and selection.format_cursor(stopped) or ''}))
end
