-- The rank of an item is one number, its score, of 52 bits (exact in a double):
--   score = class * CLASS_SIZE + priority * PRIORITY_SIZE + complexity * GROUP_SIZE + ms from RANK_EPOCH to creation
--   class = role * STATES + state    roles   0 queue  1 work  2 review  3 terminal  4 blocked
--                                    states  0 ready (terminal: nobody holds it)  1 held by a claim
--                                            2 abandoned (modules/index.lua) and ready  3 waiting for a dependency,
--                                            or held back (modules/held_back.lua)
-- Scopes are the parent's children ('p' .. parent, roots under 'p'), the children of any parent ('c'), each tag
-- ('g' .. tag) and the type ('y' .. type). Everything is 'c' and 'p' together, so that an item without a parent is in
-- one set less. Each scope is one sorted set with the scores of its items: those of a class are contiguous, best first,
-- so the first of a ready class is the next item, counting is counting a range of scores, and an item moves to another
-- class by one new score per scope. Callers name classes by letters.
-- Equal scores are ordered by id; the items of one call have one creation time and rising ids.
local classes = {}

local CLASS_LETTERS = 'qQ-1wWa2rRA3tT--bB-4klm-n'
local QUEUE, WORK, REVIEW, TERMINAL, BLOCKED = 0, 1, 2, 3, 4
local READY, HELD, ABANDONED, WAITING = 0, 1, 2, 3
local STATES = 4 -- per role
local APART = 5 * STATES -- the first of the classes of the ranked index for items apart, one for each role
local CLASS_SIZE, PRIORITY_SIZE = 2 ^ 47, 2 ^ 45 -- the sizes of a class and, within it, a priority
local GROUP_SIZE = 2 ^ 41 -- and within that a complexity: a group, ordered by age
local RANK_EPOCH = 1577836800000 -- 2020-01-01: leaves 41 bits of milliseconds, 69 years
local IN_PLACES = {[0] = 0, [4] = 1, [6] = 2, [8] = 3, [10] = 4, [16] = 5} -- ready classes by their order in places
local ID_STEPS = 8
local PLACES = CLASS_SIZE * ID_STEPS -- per class
local NO_COMPLEXITY = 15 -- sorts after every real one

-- The class that a caller's letter names.
function classes.class_of_letter(letter)
  return string.find(CLASS_LETTERS, letter, 1, true) - 1
end

-- Decodes a score (a number, or the stored text) into role, priority, creation and complexity.
function classes.role_of(score)
  return math.floor(score / (STATES * CLASS_SIZE))
end

-- The score of an item in scopes that items of all kinds share. One that is ready, but not for everybody, is apart from
-- those that any agent may take (modules/apart.lua).
function classes.shared_score(item)
  if not ((item.rq or item.as) and classes.is_ready_class(item.class)) then return item.score end
  return item.score + (APART + item.role - item.class) * CLASS_SIZE
end

function classes.priority_of(score)
  return math.floor(score / PRIORITY_SIZE) % 4
end

-- In ms.
function classes.created_of(score)
  return score % GROUP_SIZE + RANK_EPOCH
end

-- False if there is none.
function classes.complexity_of(score)
  local complexity = math.floor(score / GROUP_SIZE) % 16
  return complexity ~= NO_COMPLEXITY and complexity
end

-- A score from its parts; `complexity` is NO_COMPLEXITY for none, `created` in ms.
function classes.score_of(class, priority, complexity, created)
  return class * CLASS_SIZE + priority * PRIORITY_SIZE + complexity * GROUP_SIZE + created - RANK_EPOCH
end

function classes.is_held(item)
  return item.class % STATES == HELD
end

-- Ready and abandoned items, not in role terminal, and those apart.
local READY_CLASSES = {
  [0] = true, [4] = true, [6] = true, [8] = true, [10] = true, [16] = true, [20] = true, [21] = true, [22] = true,
  [24] = true,
}

-- Whether items of a class can be worked on.
function classes.is_ready_class(class)
  return READY_CLASSES[class] or false
end

-- Whether an item would be abandoned in a role without a live claim. That is so in work if anybody has claimed it,
-- unless a cascade or reopening took it there since (`u`); in review if the lapsed claim was placed after it came
-- there, so it was its reviewer's. Fences show the time: they are never below it. In both if it was resumed from
-- quarantine and not claimed since.
function classes.is_left(item, role)
  if role == WORK then return item.fence ~= nil and item.u ~= '1' end
  if role ~= REVIEW then return false end
  return item.u == '2' or item.holder ~= nil and item.fence >= (item.role_changed_at or classes.created_of(item.score))
end

-- The class of an unheld item in a role.
function classes.unclaimed_class(item, role)
  if item.nt or (item.nb or item.bx) and role ~= TERMINAL then return role * STATES + WAITING end
  return role * STATES + (classes.is_left(item, role) and ABANDONED or READY)
end

local ROLE_NAMES = {[0] = 'queue', 'work', 'review', 'terminal', 'blocked'}

function classes.role_name(role)
  return ROLE_NAMES[role]
end

-- Where an item in a ready class comes among the best ones of sets (modules/apart.lua), by its score there: its class
-- and score, then the first 3 bits of its id, so that few items of one call have the same place.
function classes.place_of(class, score, id)
  local digit = string.byte(id) -- hexadecimal
  digit = digit < 58 and digit - 48 or digit - 87
  return IN_PLACES[class] * PLACES + score % CLASS_SIZE * ID_STEPS + math.floor(digit / 2)
end

-- The places of a class, first and last.
function classes.places(class)
  local first = IN_PLACES[class] * PLACES
  return first, first + PLACES - 1
end

classes.APART = APART
classes.CLASS_LETTERS = CLASS_LETTERS
classes.QUEUE = QUEUE
classes.WORK = WORK
classes.REVIEW = REVIEW
classes.TERMINAL = TERMINAL
classes.BLOCKED = BLOCKED
classes.READY = READY
classes.HELD = HELD
classes.ABANDONED = ABANDONED
classes.WAITING = WAITING
classes.STATES = STATES
classes.CLASS_SIZE = CLASS_SIZE
classes.PRIORITY_SIZE = PRIORITY_SIZE
classes.GROUP_SIZE = GROUP_SIZE
classes.RANK_EPOCH = RANK_EPOCH
classes.NO_COMPLEXITY = NO_COMPLEXITY

return classes
