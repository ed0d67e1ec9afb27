-- @include keys
-- @include clock
-- The class is the item's role and readiness in one letter. Scopes are everything ('*'), the parent's
-- children ('p' .. parent, roots under 'p'), each tag ('g' .. tag) and the type ('y' .. type).
-- An item is in exactly one class of each of its scopes, so ZCARD counts roles and the head of a
-- ready class is the next item.

-- Class letters by role code (0 queue, 1 work, 2 review, 3 terminal, 4 blocked):
--   q w r t b  ready (t: nobody holds it)   Q W R T B  held by a claim   1 2 3 - 4  waiting for a dependency
local CLASSES = 'qwrtbQWRTB123-4'

local QUEUE, WORK, REVIEW, TERMINAL, BLOCKED = 0, 1, 2, 3, 4
local RANK_EPOCH = 1577836800000 -- 2020-01-01: leaves 41 bits of milliseconds, 69 years
local NO_COMPLEXITY = 255 -- sorts after every real one

local function ready_class(role)
  return string.sub(CLASSES, role + 1, role + 1)
end

local function held_class(role)
  return string.sub(CLASSES, role + 6, role + 6)
end

local function role_of(class)
  return (string.find(CLASSES, class, 1, true) - 1) % 5
end

local function is_held(it)
  return it.k >= 'A' and it.k <= 'Z'
end

local function role_name(role)
  return ({[0] = 'queue', 'work', 'review', 'terminal', 'blocked'})[role]
end
