-- The protocol of an operation that reads, `read(run, body)`: body(run) returns the reply, a table that is packed here,
-- unless it is `plain`, or an error reply, or nil. The server lets it write nothing.
-- owns: none
return function(run, body, plain)
  local reply = body(run)
  if plain or not reply or reply.err then return reply end
  return cmsgpack.pack(reply)
end
