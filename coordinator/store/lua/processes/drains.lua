-- The drains in force: which processes take no new work.
local drains = {}

-- Rows {scope, since ms}.
function drains.rows(run)
  local rows, flat = {}, redis.call('HGETALL', run.keys.drains)
  for n = 1, #flat, 2 do rows[#rows + 1] = {flat[n], tonumber(flat[n + 1])} end
  return rows
end

return drains
