-- @include index
-- What a search asks of an item beyond its place in the index. Conditions are a map, each optional: pa
-- parent, d depth, g tags (map), y type, m and r = {from, to} in ms for modified and role changed, cl claim
-- status, q text in folded form. fold = what each character outside ASCII folds to, as far as it matters
-- for the text. A change that did not happen yet counts as the creation.

-- Folds case: ASCII here, other characters by the table. Leaves \255 alone, which is in no text.
local function fold_case(s, fold)
  s = string.lower(s)
  if string.find(s, '[\128-\254]') then s = string.gsub(s, '[\194-\244][\128-\191]*', fold) end
  return s
end

local function has_tag(tags, wanted)
  for tag in each_tag(tags or '') do
    if wanted[tag] then return true end
  end
  return false
end

-- Of a claim as it is stored.
local function claim_status(claim, now)
  if not claim or #claim == 4 then return 'unclaimed' end
  return struct.unpack('>I6', claim, 5) > now and 'claimed' or 'expired'
end

-- Whether the title or the summary holds the text, and the bytes looked at. Either may be a long text.
local function contains_text(id, wanted, fold, title_found, summary_found)
  if not (title_found and summary_found) then
    local long = redis.call('HMGET', K_TEXT .. id, 't', 's')
    title_found, summary_found = title_found or long[1], summary_found or long[2] or ''
  end
  local both = title_found .. '\255' .. summary_found
  return string.find(fold_case(both, fold), wanted, 1, true), #both
end

-- Returns the stored fields that the conditions need, and a test of them: test(values, id, created) says
-- whether an item meets all, and how many bytes of text it took.
local function compile_conditions(asked, now)
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
  local function in_span(value, span, created)
    local time = tonumber(value or created)
    return time >= span[1] and time <= span[2]
  end
  condition('pa', 'pa', function(value, wanted) return value == wanted end)
  condition('d', 'd', function(value, wanted) return tonumber(value) == wanted end)
  condition('y', 'y', function(value, wanted) return value == wanted end)
  condition('g', 'g', has_tag)
  condition('m', 'ma', in_span)
  condition('r', 'ra', in_span)
  condition('cl', 'h', function(value, wanted) return claim_status(value, now) == wanted end)
  local title_at, summary_at
  if asked.q then title_at, summary_at = field('t'), field('s') end
  local function test(values, id, created)
    for _, passes in ipairs(tests) do
      if not passes(values, created) then return false, 0 end
    end
    if not asked.q then return true, 0 end
    return contains_text(id, asked.q, asked.fold, values[title_at], values[summary_at])
  end
  return fields, test, field
end
