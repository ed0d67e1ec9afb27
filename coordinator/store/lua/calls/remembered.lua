-- A function whose results are kept from call to call, for up to `most` texts; the one thing that modules keep. What a
-- result is depends on the text alone, and nobody changes it.
-- owns: none
return function(most, make)
  local kept, count = {}, 0
  return function(text)
    local found = kept[text]
    if found then return found end
    if count == most then kept, count = {}, 0 end
    found = make(text)
    kept[text], count = found, count + 1
    return found
  end
end
