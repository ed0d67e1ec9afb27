-- @include keys
-- @include clock
-- Where an item stands is one number, its score, of 51 bits (exact in a double):
--   score = class * CLASS + priority * PRIORITY + complexity * GROUP + ms since RANK_EPOCH at its creation
--   class = role * 3 + state    roles   0 queue  1 work  2 review  3 terminal  4 blocked
--                               states  0 ready (terminal: nobody holds it)  1 held by a claim
--                                       2 waiting for a dependency
-- Scopes are everything ('*'), the parent's children ('p' .. parent, roots under 'p'), each tag ('g' .. tag)
-- and the type ('y' .. type). Each is one sorted set with the scores of its items: those of a class stand
-- together in it, best first, so the first of a ready class is the next item, counting is counting a range of
-- scores, and an item moves to another class by one new score per scope. Callers name classes by letters.

local CLASS_LETTERS = 'qQ1wW2rR3tT-bB4'
local QUEUE, WORK, REVIEW, TERMINAL, BLOCKED = 0, 1, 2, 3, 4
local READY, HELD, WAITING = 0, 1, 2
local CLASS_SIZE, PRIORITY_SIZE, GROUP_SIZE = 2 ^ 47, 2 ^ 45, 2 ^ 41
local RANK_EPOCH = 1577836800000 -- 2020-01-01: leaves 41 bits of milliseconds, 69 years
local NO_COMPLEXITY = 15 -- sorts after every real one

local function class_of_letter(letter)
  return string.find(CLASS_LETTERS, letter, 1, true) - 1
end

-- Of a score, as it is stored.
local function role_of(score)
  return math.floor(score / (3 * CLASS_SIZE))
end

local function priority_of(score)
  return math.floor(score / PRIORITY_SIZE) % 4
end

local function created_of(score)
  return score % GROUP_SIZE + RANK_EPOCH
end

-- The complexity, or false when there is none.
local function complexity_of(score)
  return math.floor(score / GROUP_SIZE) % 16 ~= NO_COMPLEXITY and math.floor(score / GROUP_SIZE) % 16
end

local function score_of(class, priority, complexity, created)
  return class * CLASS_SIZE + priority * PRIORITY_SIZE + complexity * GROUP_SIZE + created - RANK_EPOCH
end

local function is_held(item)
  return item.class % 3 == HELD
end

-- The class of an item of `role` that nobody holds.
local function unclaimed_class(item, role)
  return role * 3 + (item.nb and role ~= TERMINAL and WAITING or READY)
end

local ROLE_NAMES = {[0] = 'queue', 'work', 'review', 'terminal', 'blocked'}

local function role_name(role)
  return ROLE_NAMES[role]
end
