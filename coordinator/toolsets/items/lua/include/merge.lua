-- @include ranges
-- Merges items of many groups in one order of creation. A moment is the ms since RANK_EPOCH for oldest first, and their
-- negative for newest first, so it always rises. A run is a position in one group of one set (include/ranges.lua):
-- {key, base, id, moment, bound} with the item there, and the scores at which the group begins (base) and ends (bound).
-- Runs are merged by a heap, so an item costs O(log runs).

local RUN_READ_MAX = 16 -- items of a run that are read at a time
local SORTED_MAX = 128 -- items of a scope that are read and sorted at once: less work than merging their groups

-- Appends a run for each group of a set that has items within the span, at the first of them.
local function add_runs(runs, set, span, newest)
  local key, start = set.key, set.base / GROUP_SIZE
  local first, last, near, far = start + span[1], start + span[2], span[3], span[4]
  local step, command = 1, 'ZRANGEBYSCORE'
  if newest then
    first, last, near, far = last, first, far, near
    step, command = -1, 'ZREVRANGEBYSCORE'
  end
  while (last - first) * step >= 0 do
    local from, to = first * GROUP_SIZE + near, last * GROUP_SIZE + far
    local flat = redis.call(command, key, from, to, 'WITHSCORES', 'LIMIT', 0, 1)
    if not flat[1] then return end
    local score = tonumber(flat[2])
    local group = math.floor(score / GROUP_SIZE)
    local age = score - group * GROUP_SIZE
    if (age - near) * step < 0 then
      first = group -- its first item lies outside the span; maybe not all do
    else
      if (far - age) * step >= 0 then
        local bound = group * GROUP_SIZE + far
        runs[#runs + 1] = {key = key, base = group * GROUP_SIZE, id = flat[1], moment = age * step, bound = bound}
      end
      first = group + step
    end
  end
end

-- Moves a run to its next item; false at its end.
local function advance_run(run, newest)
  local flat = run.flat
  if not flat or run.at > #flat then
    local command = newest and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
    run.start = run.start or run.base + math.abs(run.moment)
    run.taken = (run.taken or 1) + (flat and #flat / 2 or 0)
    run.read = math.min(2 * (run.read or 1), RUN_READ_MAX) -- of many runs most give one item or none
    flat = redis.call(command, run.key, run.start, run.bound, 'WITHSCORES', 'LIMIT', run.taken, run.read)
    if #flat == 0 then return false end
    run.flat, run.at = flat, 1
  end
  local age = tonumber(flat[run.at + 1]) - run.base
  run.id, run.moment = flat[run.at], newest and -age or age
  run.at = run.at + 2
  return true
end

-- Restores the heap below position n: the run that stands earliest is the first.
local function sift_down(heap, n)
  while true do
    local child = 2 * n
    if child < #heap and heap[child + 1].moment < heap[child].moment then child = child + 1 end
    if child > #heap or heap[n].moment <= heap[child].moment then return end
    heap[n], heap[child] = heap[child], heap[n]
    n = child
  end
end

-- Appends to `ids` until it holds `wanted`, after skipping `skip` items. Items of one moment come in order
-- of their ids. Uses the runs up.
local function merge_runs(runs, newest, skip, wanted, ids)
  for n = math.floor(#runs / 2), 1, -1 do sift_down(runs, n) end
  while runs[1] and #ids < wanted do
    local moment, tie = runs[1].moment, {}
    while runs[1] and runs[1].moment == moment do
      tie[#tie + 1] = runs[1].id
      if not advance_run(runs[1], newest) then
        runs[1] = runs[#runs]
        runs[#runs] = nil
      end
      if runs[2] then sift_down(runs, 1) end
    end
    if #tie > 1 then table.sort(tie) end
    for _, id in ipairs(tie) do
      if skip > 0 then
        skip = skip - 1
      elseif #ids < wanted then
        ids[#ids + 1] = id
      end
    end
  end
end

-- The newest items of a scope, at most `wanted`.
local function newest_of(scope, wanted)
  local key, ids = K_RANKED .. scope, {}
  if redis.call('ZCARD', key) > SORTED_MAX then
    local runs = {}
    add_runs(runs, {key = key, base = 0}, {0, #CLASS_LETTERS * CLASS_SIZE / GROUP_SIZE - 1, 0, GROUP_SIZE - 1}, true)
    merge_runs(runs, true, 0, wanted, ids)
    return ids
  end
  local flat, list = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
  for n = 1, #flat, 2 do list[#list + 1] = {flat[n], flat[n + 1] % GROUP_SIZE} end
  table.sort(list, function(a, b)
    if a[2] ~= b[2] then return a[2] > b[2] end
    return a[1] < b[1]
  end)
  for n = 1, math.min(#list, wanted) do ids[n] = list[n][1] end
  return ids
end
