-- The protocol of an operation that reads, `read(run, body)`: body(run) returns the reply, a table that is packed here,
-- or an error reply, or nil.
return function(run, body)
  local reply = body(run)
  if not reply or reply.err then return reply end
  return cmsgpack.pack(reply)
end
