-- The state of one call of an operation. It is made when the call begins and passed to all that needs it; no module
-- keeps anything else from call to call. It has the arguments that the operation's header calls `run.<name>`, and
--   keys     the keys of the partition by family (keys.py); keys.prefix is where all of them begin
--   project  the name of the project
--   now      the server's time in ms
-- owns: none
local clock = require 'clock'
local keys = require 'keys'

return function(run, prefix)
  run.keys, run.now = keys(prefix), clock.now()
  run.project = run.keys.project
  return run
end
