-- @include keys
-- The list that a script is about, by its argument `what`: projects by when they were last noted, in s.
local list = what == 'steps' and K_STEP_PROJECTS or K_ITEM_PROJECTS
