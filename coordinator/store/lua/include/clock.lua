-- Server time in milliseconds. Redis time decides every expiry; no front-end clock does.
local function server_time()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Whole numbers above 2^46 lose digits in Lua's own formatting; scores and times are written with this.
local function whole(n)
  return string.format('%.0f', n)
end
