-- @include item
-- Texts of items. Short ones live in the item, which stays a small hash that way; long ones beside it.

local INLINE_BYTES = 64

-- A text wherever its length puts it; '' and false remove it.
local function put_text(it, field, value)
  local long = value and #value > INLINE_BYTES
  put(it, field, value and value ~= '' and not long and value)
  if long then
    redis.call('HSET', K_TEXT .. it.id, field, value)
  else
    redis.call('HDEL', K_TEXT .. it.id, field)
  end
end

local function text_of(it, field)
  return it[field] or redis.call('HGET', K_TEXT .. it.id, field)
end

local function title(it)
  return text_of(it, 't')
end
