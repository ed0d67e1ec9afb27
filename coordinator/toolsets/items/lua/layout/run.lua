-- The state of one call, as in the store's run.lua, with what the modules of the items keep there. Arguments that many
-- operations have: events_max (how many events the project keeps), terms (terms.lua), config (version of the
-- note schemas, '' for none), labels (of triggers: a zero byte, the trigger, '=' and its status label, for each that
-- has one; %00 and %25 in a label are a zero byte and a percent sign).
local clock = require 'clock'
local keys = require 'keys'

-- Rarely needed tables are created on first use: creating all of them would take a tenth of a short call.
local TABLES = {
  blocked_again = true, -- ids of items with one more unsatisfied blocker, as a list
  counted = true, known = true, -- by id: number of edges, and neighbours (neighbours.lua)
  known_agents = true, -- by name (agents.lua)
  edgeless = true, -- by id: items that are known to have no edges
  known_bounds = true, -- by member: the lowest bound stored or read by this call (bounds.lua)
  known_heads = true, known_paths = true, -- by id: heads of blockers, ancestors of parents (views.lua)
  known_roots = true, -- by id of a parent: the item at the top of its tree (item_events.lua)
  known_parents = true, new_items = true, -- by id; in order of creation (creation.lua)
  known_processes = true, queue_states = true, -- by name; by queue (queues.lua)
  left_apart = true, left_in_scopes = true, left_sets = true, -- of deleted items, to remove (erasure.lua)
  spared_edges = true, -- edges of these
  changed_below = true, open_below = true, -- by id of a parent (children.lua)
  demand_counts = true, -- by node (demands.lua)
  held_at = true, given_back = true, -- by node; list of demands (resources.lua)
  passed = true, -- what this call has passed over (fairness.lua)
  new_sets = true, -- by member: sets that this call has chosen first (apart.lua)
  first_two = true, -- by scope: the first items of a set with their scores, as they are now (apart.lua)
  owed_counts = true, -- by id: the outstanding change of the item's count of blockers
}
local VALUES = {
  body_bytes = 0, rows_included = 0, -- read for callers (included.lua)
  abandoned_noted = false, -- whether this call has added abandoned items
  comparisons = 0, hand_overs = 0, -- of items with parked calls (serve.lua)
  edges_looked_at = 0, -- for repairs of levels (levels.lua)
  sets_added = 0, -- how many of these
  some_rated = false, -- whether this call has read what is left of units per minute (resources.lua)
  looks_left = 256, -- remaining reads of parked calls in search of a holder (holders.lua)
}
local DEFAULTS = {
  __index = function(run, name)
    if not TABLES[name] then return VALUES[name] end
    local made = {}
    run[name] = made
    return made
  end,
}

return function(args, prefix)
  local all = keys(prefix)
  return setmetatable({
    keys = all, project = all.project, now = clock.now(),
    events_max = args.events_max, terms = args.terms, config = args.config, labels = args.labels,
    loaded = {}, -- by id: one table per item and call, so that all code of the call sees changes
    newly_ready = {}, -- ids moved to a ready class by this call (serve.lua hands them out)
    freed_ids = {}, -- items freed by this call: their subtrees may be claimed again (serve.lua)
    edges_visited = 0, -- of items whose role has changed in this call
    tag_entries_written = 0, -- entries in tag scopes written one by one by this call
    has_debts = false, -- whether this call has stored debts
    nobody_waits = false, -- whether it is known that no call is parked
    nothing_else = false, -- and that none of the further keys exist which the operation has looked for
    -- Nil until needed, and cleared when claims change, or calls park or leave:
    -- known_holders  by scope and parent (selectors.lua)    known_selectors  by place (wanted.lua)
    -- first_sets  the first ones of all classes (apart_sets.lua)
    -- refill_ms  after how many ms units per minute come back that this call has lacked (resources.lua)
    -- Of operations that create items: created  when, in ms    all_new  whether none of the new ones exists yet
  }, DEFAULTS)
end
