-- @include item
-- Texts of items. Short ones are stored in the item's hash, long ones in a second hash, so that the first stays small.

local INLINE_BYTES = 64

-- Stores a text (t or s) where its length puts it; '' and false remove it. `save_item` is to follow.
local function set_text(item, field, value)
  local long = value and #value > INLINE_BYTES
  set_field(item, field, value and value ~= '' and not long and value)
  if long then
    redis.call('HSET', K_TEXT .. item.id, field, value)
  else
    redis.call('HDEL', K_TEXT .. item.id, field)
  end
end

-- The text, nil or false where there is none.
local function text_of(item, field)
  return item[field] or redis.call('HGET', K_TEXT .. item.id, field)
end

local function title_of(item)
  return text_of(item, 't')
end
