-- @include index
-- Note schemas, from the configuration that the front-ends installed under its hash. Fields of that
-- hash, each packed: 's:' .. name = {lifecycle, default traits, notes}, 't:' .. trait = notes,
-- 'default' = name; a note is {key, role, required}. An empty `config` means that none is configured.

local MANUAL, PERMANENT, AUTO_REOPEN = 'M', 'P', 'R' -- lifecycles that differ from the usual one, 'A'

-- Whether the configuration is not installed (any more): the front-end installs it and calls again.
local function config_missing(config)
  return config ~= '' and redis.call('EXISTS', K_SCHEMAS .. config) == 0
end

-- A field of the configuration, unpacked; false where there is none.
local function read_config(config, field)
  local packed = redis.call('HGET', K_SCHEMAS .. config, field)
  return packed and cmsgpack.unpack(packed)
end

-- The schema as configured: type first, then the first tag that names one, then the default (seed 004, gate
-- enforcement).
local function load_base_schema(item, config)
  local found = item.y and read_config(config, 's:' .. item.y)
  if found then return found end
  for tag in string.gmatch(item.g or '', '[^,%s]+') do
    found = read_config(config, 's:' .. tag)
    if found then return found end
  end
  local fallback = redis.call('HGET', K_SCHEMAS .. config, 'default')
  return fallback and read_config(config, 's:' .. fallback)
end

local function load_schema(item, config)
  local base = load_base_schema(item, config)
  if not base then return nil end
  local notes, known = {}, {}
  local function merge(list)
    for _, note in ipairs(list or {}) do
      local key = note[1]
      if not known[key] then
        known[key] = true
        notes[#notes + 1] = note
      end
    end
  end
  merge(base[3])
  for _, trait in ipairs(base[2]) do merge(read_config(config, 't:' .. trait)) end
  for trait in string.gmatch(item.q or '', '[^,]+') do merge(read_config(config, 't:' .. trait)) end
  local review = false
  for _, note in ipairs(notes) do review = review or note[2] == 'review' end
  return {lifecycle = base[1], notes = notes, review = review}
end

-- {lifecycle, notes, review} with the notes of traits merged in (the schema's own notes win), or nil.
local function schema_of(item, config)
  return config ~= '' and load_schema(item, config) or nil
end

-- The required notes for a role (nil: for all) that do not exist or are blank: their keys, and the phase of each.
local function missing_notes(item, schema, role)
  local missing, phases, phase = {}, {}, role and role_name(role)
  for _, note in ipairs(schema.notes) do
    local key, note_phase, required = note[1], note[2], note[3]
    if required and (not phase or note_phase == phase) then
      local entry = redis.call('HGET', K_NOTES .. item.id, key) -- see include/notes.lua
      if not entry or string.sub(entry, 34, 34) ~= '1' then
        missing[#missing + 1], phases[#phases + 1] = key, note_phase
      end
    end
  end
  return missing, phases
end

-- Whether an item of the schema (nil for none) follows its children to terminal.
local function may_cascade(schema)
  return not schema or (schema.lifecycle ~= MANUAL and schema.lifecycle ~= PERMANENT)
end
