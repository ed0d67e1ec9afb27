-- Note schemas, from the configuration that the front-ends installed under its hash, run.config ('' for none).
--   schemas  per hash, each field packed: 's:' .. name = {lifecycle, default traits, notes}, 't:' .. trait = notes,
--            'default' = name; a note is {key, role, required}
-- owns: none
local classes = require 'classes'
local notes = require 'notes'

local QUEUE, WORK, TERMINAL, BLOCKED = classes.QUEUE, classes.WORK, classes.TERMINAL, classes.BLOCKED

local schemas = {}

local MANUAL, PERMANENT, AUTO_REOPEN = 'M', 'P', 'R' -- lifecycles other than the default, 'A'

-- Whether the configuration is missing: then the front-end installs it and calls again.
function schemas.is_missing(run)
  return run.config ~= '' and redis.call('EXISTS', run.keys.schemas .. run.config) == 0
end

-- A field of the configuration, unpacked; false if there is none.
local function read_config(run, field)
  local packed = redis.call('HGET', run.keys.schemas .. run.config, field)
  return packed and cmsgpack.unpack(packed)
end

-- The schema as configured: type first, then the first tag that names one, then the default. Nil if there is none.
local function load_base_schema(run, item)
  local found = item.y and read_config(run, 's:' .. item.y)
  if found then return found end
  for tag in string.gmatch(item.g or '', '[^,%s]+') do
    found = read_config(run, 's:' .. tag)
    if found then return found end
  end
  local fallback = redis.call('HGET', run.keys.schemas .. run.config, 'default')
  return fallback and read_config(run, 's:' .. fallback)
end

-- Adds to a schema the notes of a list (false for none) with new keys; `known` = its keys.
local function merge_notes(schema, known, list)
  for _, note in ipairs(list or {}) do
    local key, role = note[1], note[2]
    if not known[key] then
      known[key] = true
      schema.notes[#schema.notes + 1] = note
      schema.review = schema.review or role == 'review'
    end
  end
end

local function load_schema(run, item)
  local base = load_base_schema(run, item)
  if not base then return nil end
  local schema, known = {lifecycle = base[1], notes = {}, review = false}, {}
  merge_notes(schema, known, base[3])
  for _, trait in ipairs(base[2]) do merge_notes(schema, known, read_config(run, 't:' .. trait)) end
  for trait in string.gmatch(item.q or '', '[^,]+') do merge_notes(schema, known, read_config(run, 't:' .. trait)) end
  return schema
end

-- The schema of an item, {lifecycle, notes, review} with the notes of traits merged in (the schema's own notes win), or
-- nil; review = whether one of its notes is for that role.
function schemas.of(run, item)
  return run.config ~= '' and load_schema(run, item) or nil
end

-- The required notes for a role (nil: for all) that do not exist or are blank: their keys, and the phase of each. The
-- note under the key `given` (nil: none) comes with the change, and is not blank.
function schemas.missing_notes(run, item, schema, role, given)
  local missing, phases, phase = {}, {}, role and classes.role_name(role)
  for _, note in ipairs(schema.notes) do
    local key, note_phase, required = note[1], note[2], note[3]
    if required and key ~= given and (not phase or note_phase == phase) then
      local entry = redis.call('HGET', run.keys.notes .. item.id, key)
      if not entry or not notes.is_filled(entry) then
        missing[#missing + 1], phases[#phases + 1] = key, note_phase
      end
    end
  end
  return missing, phases
end

-- The letter of the phase of the note under a key: that of its schema (nil for none), else that of the item's role.
function schemas.phase_of(schema, item, key)
  for _, note in ipairs(schema and schema.notes or {}) do
    if note[1] == key then return string.sub(note[2], 1, 1) end
  end
  local role = item.role == BLOCKED and tonumber(item.pr or QUEUE) or item.role
  return string.sub(classes.role_name(role == TERMINAL and WORK or role), 1, 1)
end

-- Whether an item of the schema (nil for none) follows its children to terminal.
function schemas.may_cascade(schema)
  return not schema or (schema.lifecycle ~= MANUAL and schema.lifecycle ~= PERMANENT)
end

-- Whether items of the schema (nil for none) never end with their children, and are not work themselves.
function schemas.is_permanent(schema)
  return schema ~= nil and schema.lifecycle == PERMANENT
end

schemas.AUTO_REOPEN = AUTO_REOPEN

return schemas
