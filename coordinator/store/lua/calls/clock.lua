-- Times, and how they are written.
-- owns: none
local clock = {}

-- Server time in milliseconds. Redis time decides every expiry; no front-end clock does.
function clock.now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Whole numbers above 2^46 lose digits in Lua's own formatting, and above 10^12 they may reach a command in a form
-- like 1.7e+12. Times are written with this wherever they are not the score of a sorted set.
function clock.whole(n)
  return string.format('%d', n)
end

-- The same as a word of a command, for less: a number that ends in fewer than eight zeros, of which all servers write
-- out all digits.
function clock.word(n)
  return n % 100000000 ~= 0 and n or string.format('%d', n)
end

return clock
