-- @include filters
-- Positions of items in the order of rank that a selector asks for, whatever their classes: an item that moves from one
-- to another stays where it is. With a role that is the score without the class. Without one, priority comes first, then
-- whether the item is abandoned, then the rest of the score.

-- The position of an item of a class, by its score.
local function position_of(selector, class, score)
  local place = score % CLASS_SIZE
  if selector.role then return place end
  return place + math.floor(place / PRIORITY_SIZE) * PRIORITY_SIZE + (class == QUEUE * STATES and PRIORITY_SIZE or 0)
end

-- The lowest score in a class from which on positions are at or after `position`.
local function score_at(selector, class, position)
  if selector.role then return class * CLASS_SIZE + position end
  local priority, rest = math.floor(position / (2 * PRIORITY_SIZE)), position % (2 * PRIORITY_SIZE)
  if class == QUEUE * STATES then
    rest = math.max(rest - PRIORITY_SIZE, 0)
  else
    rest = math.min(rest, PRIORITY_SIZE) -- what is on offer in queue comes after all abandoned ones of a priority
  end
  return class * CLASS_SIZE + priority * PRIORITY_SIZE + rest
end
