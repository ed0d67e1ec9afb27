-- The conditions of a search that the index cannot answer: a map of optional entries: pa parent, an ancestor, d depth,
-- g tags (map), y type, fields of items.PLAIN by letter, m, r and du = {from, to} in ms for modified, role changed and
-- due, cl status of its claim, q text in folded form. fold = case folding of the non-ASCII characters that matter for
-- the text. A change that has not happened yet counts as the creation.
-- owns: none
local due_times = require 'due_times'
local item_record = require 'item_record'
local items = require 'items'
local selectors = require 'selectors'
local tags_of = require 'tags_of'

local conditions = {}

-- Folds case: ASCII here, other characters by the table. Leaves \255 alone, which is in no text.
local function fold_case(text, fold)
  text = string.lower(text)
  if string.find(text, '[\128-\254]') then text = string.gsub(text, '[\194-\244][\128-\191]*', fold) end
  return text
end

-- Whether the stored tags include any in a map.
local function has_tag(tags, wanted)
  for _, tag in ipairs(tags_of(tags or '')) do
    if wanted[tag] then return true end
  end
  return false
end

-- Whether the title or the summary, if stored inline, contains the text, and the bytes searched.
local function contains_text(run, id, wanted, fold, title, summary)
  if not (title and summary) then
    local long = redis.call('HMGET', run.keys.text .. id, 't', 's')
    title, summary = title or long[1], summary or long[2] or ''
  end
  local both = title .. '\255' .. summary
  return string.find(fold_case(both, fold), wanted, 1, true), #both
end

local function equals(value, wanted)
  return value == wanted
end

-- A number is not stored if it is 0.
local function is_number(value, wanted)
  return tonumber(value or 0) == wanted
end

-- Whether a time (nil: the creation) lies within a span {from, to}; in ms.
local function in_span(time, span, created)
  return (time or created) >= span[1] and (time or created) <= span[2]
end

-- Compiles the conditions. Returns the needed stored fields; test(values, id, created), which returns whether an item
-- with these values matches, and how many bytes of text were searched; and field(name), which adds a field and returns
-- the index of its value.
function conditions.compile(run, asked)
  local fields, tests, at = {}, {}, {}
  local function field(name)
    if not at[name] then
      fields[#fields + 1] = name
      at[name] = #fields
    end
    return at[name]
  end
  local function condition(name, stored, test)
    if asked[name] == nil then return end
    local n, wanted = field(stored), asked[name]
    tests[#tests + 1] = function(values, created) return test(values[n], wanted, created) end
  end
  for _, name in ipairs({'pa', 'y', unpack(items.PLAIN)}) do condition(name, name, equals) end
  condition('an', 'pa', function(parent, wanted) return selectors.is_below(run, {pa = parent}, wanted) end)
  condition('d', 'd', is_number)
  condition('g', 'g', has_tag)
  condition('m', 'w', function(value, span, created) return in_span(item_record.modified_at(value), span, created) end)
  condition('r', 'w', function(value, span, created)
    return in_span(item_record.role_changed_at(value), span, created)
  end)
  condition('du', 'du', function(value, span)
    local due = due_times.due_at(value)
    return due and in_span(due, span)
  end)
  condition('cl', 'w', function(value, wanted) return item_record.claim_status(run, value) == wanted end)
  local title_at, summary_at
  if asked.q then title_at, summary_at = field('t'), field('s') end
  local function test(values, id, created)
    for _, passes in ipairs(tests) do
      if not passes(values, created) then return false, 0 end
    end
    if not asked.q then return true, 0 end
    return contains_text(run, id, asked.q, asked.fold, values[title_at], values[summary_at])
  end
  return fields, test, field
end

return conditions
