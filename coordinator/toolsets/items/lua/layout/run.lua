-- The state of one call, as in the store's run.lua, and
--   loaded    by id: one table per item and call, so that all code of the call sees changes
--   absent    keys that are known not to exist (absence.lua)
--   settings  the parts of `terms` by letter (terms.lua)
-- Arguments that many operations have: events_max (how many events the project keeps), terms (terms.lua),
-- config (version of the note schemas, '' for none), labels (of triggers: a zero byte, the trigger, '=' and its status
-- label, for each that has one; %00 and %25 in a label are a zero byte and a percent sign).
-- What a module keeps during the call is run[module], for it alone; its first lines say what that is.
-- owns: none
local clock = require 'clock'
local keys = require 'keys'
local terms = require 'terms'

local NONE = {}

return function(args, prefix)
  local all = keys(prefix)
  return {
    keys = all, project = all.project, now = clock.now(),
    events_max = args.events_max, terms = args.terms, config = args.config, labels = args.labels,
    settings = args.terms and terms.parts(args.terms) or NONE, loaded = {}, absent = NONE,
  }
end
