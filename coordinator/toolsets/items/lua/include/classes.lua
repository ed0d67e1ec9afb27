-- @include keys
-- @include clock
-- Where an item stands is one number, its score, of 52 bits (exact in a double):
--   score = class * CLASS + priority * PRIORITY + complexity * GROUP + ms since RANK_EPOCH at its creation
--   class = role * STATES + state    roles   0 queue  1 work  2 review  3 terminal  4 blocked
--                               states  0 ready (terminal: nobody holds it)  1 held by a claim
--                                       2 abandoned (include/abandoned.lua) and ready  3 waiting for a dependency
-- Scopes are everything ('*'), the parent's children ('p' .. parent, roots under 'p'), each tag ('g' .. tag)
-- and the type ('y' .. type). Each is one sorted set with the scores of its items: those of a class stand
-- together in it, best first, so the first of a ready class is the next item, counting is counting a range of
-- scores, and an item moves to another class by one new score per scope. Callers name classes by letters.
-- Equal scores are in the order of ids; the items of one call have one creation time and rising ids.

local CLASS_LETTERS = 'qQ-1wWa2rRA3tT--bB-4'
local QUEUE, WORK, REVIEW, TERMINAL, BLOCKED = 0, 1, 2, 3, 4
local READY, HELD, ABANDONED, WAITING = 0, 1, 2, 3
local STATES = 4 -- of each role
local CLASS_SIZE, PRIORITY_SIZE = 2 ^ 47, 2 ^ 45 -- how many scores a class takes, and in it a priority
local GROUP_SIZE = 2 ^ 41 -- and in that a complexity: a group, whose items stand in order of age
local RANK_EPOCH = 1577836800000 -- 2020-01-01: leaves 41 bits of milliseconds, 69 years
local NO_COMPLEXITY = 15 -- sorts after every real one

-- The class that a caller's letter names.
local function class_of_letter(letter)
  return string.find(CLASS_LETTERS, letter, 1, true) - 1
end

-- What a score says (these take it as a number, or as the text that is stored).
local function role_of(score)
  return math.floor(score / (STATES * CLASS_SIZE))
end

local function priority_of(score)
  return math.floor(score / PRIORITY_SIZE) % 4
end

-- In ms.
local function created_of(score)
  return score % GROUP_SIZE + RANK_EPOCH
end

-- False where there is none.
local function complexity_of(score)
  return math.floor(score / GROUP_SIZE) % 16 ~= NO_COMPLEXITY and math.floor(score / GROUP_SIZE) % 16
end

-- `complexity`: NO_COMPLEXITY for none; `created` in ms.
local function score_of(class, priority, complexity, created)
  return class * CLASS_SIZE + priority * PRIORITY_SIZE + complexity * GROUP_SIZE + created - RANK_EPOCH
end

local function is_held(item)
  return item.class % STATES == HELD
end

-- Whether it can be worked on; nothing is to be done about a terminal item.
local function is_ready_class(class)
  return class % STATES == READY and class ~= TERMINAL * STATES or class % STATES == ABANDONED
end

local READY_CLASSES = {0, 4, 6, 8, 10, 16} -- those that there are

-- Whether an item would be abandoned in a role if no claim on it were live: it was left in the middle. That is so in
-- work if anybody has claimed it, unless it came there by itself since (`u`); in review if the claim that lapsed was
-- placed after it came there, so it was its reviewer's. Fences tell when: they are never below the time.
local function is_left(item, role)
  if role == WORK then return item.fence ~= nil and not item.u end
  return role == REVIEW and item.holder ~= nil and item.fence >= tonumber(item.ra or created_of(item.score))
end

-- The class that an item has in a role while nobody holds it.
local function unclaimed_class(item, role)
  if item.nb and role ~= TERMINAL then return role * STATES + WAITING end
  return role * STATES + (is_left(item, role) and ABANDONED or READY)
end

local ROLE_NAMES = {[0] = 'queue', 'work', 'review', 'terminal', 'blocked'}

local function role_name(role)
  return ROLE_NAMES[role]
end
