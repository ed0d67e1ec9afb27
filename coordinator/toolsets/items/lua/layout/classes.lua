-- The rank of an item is one number, its score, of 53 bits (exact in a double):
--   score = class * CLASS_SIZE + priority * PRIORITY_SIZE + complexity * GROUP_SIZE + ms from RANK_EPOCH to creation
--   class = role * STATES + state    roles   0 queue  1 work  2 review  3 terminal  4 blocked
--                                    states  0 ready (terminal: nobody holds it)  1 held by a claim
--                                            2 abandoned and ready (abandoned.lua); also work whose children
--                                              have ended (children.lua)
--                                            3 waiting for a dependency, or held back (held_back.lua)
--                                            4 would be ready, but has open children (children.lua)
--                                            6 would be abandoned and ready, but has open children
--                                            7 only in shared scopes: ready, but not for everybody (apart.lua)
-- Scopes are the parent's children ('p' .. parent, roots under 'p'), the children of any parent ('c'), each tag
-- ('g' .. tag) and the type ('y' .. type). Everything is 'c' and 'p' together, so that an item without a parent is in
-- one set less. Each scope is one sorted set with the scores of its items: those of a class are contiguous, best first,
-- so the first of a ready class is the next item, counting is counting a range of scores, and an item moves to another
-- class by one new score per scope. Callers name classes by letters.
-- Equal scores are ordered by id; the items of one call have one creation time and rising ids.
-- owns: none
local record_layout = require 'record_layout'

local classes = {}

local CLASS_LETTERS = 'qQ-1p--kwWa2x-XlrRA3---mtT------bB-4---n'
local QUEUE, WORK, REVIEW, TERMINAL, BLOCKED = 0, 1, 2, 3, 4
local READY, HELD, ABANDONED, WAITING, PARENT, PARENT_LEFT, APART = 0, 1, 2, 3, 4, 6, 7
local STATES, NO_COMPLEXITY, RANK_EPOCH = record_layout.STATES, record_layout.NO_COMPLEXITY, record_layout.RANK_EPOCH
local CLASS_SIZE, PRIORITY_SIZE = record_layout.CLASS_SIZE, record_layout.PRIORITY_SIZE
local GROUP_SIZE = record_layout.GROUP_SIZE -- of a priority and complexity, ordered by age
local IN_PLACES = { -- ready classes by their order in places
  [QUEUE * STATES + READY] = 0, [WORK * STATES + READY] = 1, [WORK * STATES + ABANDONED] = 2,
  [REVIEW * STATES + READY] = 3, [REVIEW * STATES + ABANDONED] = 4, [BLOCKED * STATES + READY] = 5,
}
local ID_STEPS = 8
local PLACES = CLASS_SIZE * ID_STEPS -- per class

-- READY_CLASSES: of items that can be worked on, those in places and, of the same roles, those apart. OFFERED: these,
-- and those of items that only open children keep from that.
local READY_CLASSES, OFFERED = {}, {
  [QUEUE * STATES + PARENT] = true, [WORK * STATES + PARENT] = true, [WORK * STATES + PARENT_LEFT] = true,
}
for class = 0, BLOCKED * STATES + APART do
  if IN_PLACES[class] or IN_PLACES[class - APART] and class % STATES == APART then
    READY_CLASSES[class], OFFERED[class] = true, true
  end
end

-- The class that a caller's letter names.
function classes.class_of_letter(letter)
  return string.find(CLASS_LETTERS, letter, 1, true) - 1
end

-- The score of an item in scopes that items of all kinds share. One that is ready, but not for everybody, is apart from
-- those that any agent may take (apart.lua).
function classes.shared_score(item)
  if not ((item.rq or item.as) and READY_CLASSES[item.class]) then return item.score end
  return item.score + (item.role * STATES + APART - item.class) * CLASS_SIZE
end

-- The parts of a score, which is a number or the stored text.

function classes.role_of(score)
  return math.floor(score / (STATES * CLASS_SIZE))
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

-- Whether an item would be abandoned in a role without a live claim. That is so in work if anybody has claimed it,
-- unless a cascade or reopening took it there since (`u`); in review if the lapsed claim was placed after it came
-- there, so it was its reviewer's. Fences show the time: they are never below it. In both if it was resumed from
-- quarantine and not claimed since.
function classes.is_left(item, role)
  if role == WORK then return item.fence ~= nil and item.u ~= '1' end
  if role ~= REVIEW then return false end
  return item.u == '2' or item.holder ~= nil and item.fence >= (item.role_changed_at or classes.created_of(item.score))
end

-- Whether something other than its children keeps an unheld item in a role (nil: its own) from being offered.
function classes.is_kept_back(item, role)
  return item.nt or (item.nb or item.bx or item.st) and (role or item.role) ~= TERMINAL
end

-- Whether its children keep an item in a role from being offered (children.lua).
function classes.waits_for_children(item, role)
  return (item.ch == '1' or item.ch == '2') and (role == QUEUE or role == WORK)
end

-- Whether an unheld item waits in its role.
function classes.waits(item)
  return classes.is_kept_back(item) or classes.waits_for_children(item, item.role)
end

-- The class of an unheld item in a role.
function classes.unclaimed_class(item, role)
  if classes.is_kept_back(item, role) then return role * STATES + WAITING end
  local left = classes.is_left(item, role)
  if classes.waits_for_children(item, role) then return role * STATES + (left and PARENT_LEFT or PARENT) end
  return role * STATES + ((left or role == WORK and item.ch == '3') and ABANDONED or READY)
end

-- The state of an item as people see it: what has ended is held by nobody, and work after its children was not left.
function classes.shown_state(item)
  local state = item.class % STATES
  return (item.role == TERMINAL or state == ABANDONED and item.ch == '3') and READY or state
end

local ROLE_NAMES = {[0] = 'queue', 'work', 'review', 'terminal', 'blocked'}

function classes.role_name(role)
  return ROLE_NAMES[role]
end

-- Where an item in a ready class comes among the best ones of sets (apart.lua), by its score there: its class
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
classes.OFFERED = OFFERED
classes.READY_CLASSES = READY_CLASSES
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
classes.PARENT = PARENT
classes.PARENT_LEFT = PARENT_LEFT
classes.STATES = STATES
classes.CLASS_SIZE = CLASS_SIZE
classes.PRIORITY_SIZE = PRIORITY_SIZE
classes.GROUP_SIZE = GROUP_SIZE
classes.RANK_EPOCH = RANK_EPOCH
classes.NO_COMPLEXITY = NO_COMPLEXITY

return classes
