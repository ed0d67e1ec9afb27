-- What is asked to take no new work.
local drains = {}

-- Rows {scope, since ms}: all that is asked for now.
function drains.rows(run)
  local rows, flat = {}, redis.call('HGETALL', run.keys.drains)
  for n = 1, #flat, 2 do rows[#rows + 1] = {flat[n], tonumber(flat[n + 1])} end
  return rows
end

return drains
