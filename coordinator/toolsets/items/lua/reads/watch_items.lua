--[[
purpose:   Reads whether conditions hold of items, for waiting reads.
guarantee: All of one moment, with the position of the event stream. Changes nothing.
args:      asked...
           asked = id, condition (watched.lua) and the last witness or '', of each
reply:     {id of this server's history, last id, list of _Reading (store/watched.py), false: there is no such item}
errors:    none
--]]
local position = require 'position'
local read = require 'read'
local watched = require 'watched'

return function(run, asked)
  return read(run, function()
    local readings = {}
    for n = 1, #asked, 3 do
      readings[#readings + 1] = watched.reading(run, asked[n], asked[n + 1], asked[n + 2])
    end
    return {position.history(), position.last(position.facts(run)), readings}
  end)
end
