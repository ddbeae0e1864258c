-- Mark the state as one of this schema, or say what schema it has.
--
-- request  time, schema, whether it may be made
-- returns  [the server's time, schema; "" when there is no state]
-- keys     state

local schema = call("HGET", KEYS[1], "schema")
if not schema and request[3] then
  schema = request[2]
  call("HSET", KEYS[1], "schema", schema)
end
return { exact(NOW), schema or "" }
