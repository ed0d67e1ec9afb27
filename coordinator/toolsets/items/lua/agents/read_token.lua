--[[
purpose:   Reads whether a token for a claim is valid.
guarantee: A consistent snapshot, at the server's current time; writes nothing.
args:      number item fence agent
           number, item, fence, agent = what the token says
reply:     TokenState (store/agents/tokens.py)
errors:    none
--]]
local item_record = require 'item_record'
local read = require 'read'

return function(run, number, item, fence, agent)
  return read(run, function()
    local state, packed = {}, redis.call('HGET', run.keys.item .. item, 'w')
    if packed then item_record.unpack(state, packed) end
    local live = state.holder == agent and state.fence == tonumber(fence) and state.expires > run.now
    return {redis.call('GET', run.keys.request .. 't' .. item) == number, live, (state.fence or 0) > tonumber(fence)}
  end)
end
