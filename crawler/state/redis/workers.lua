-- The workers that gave a sign of life lately.
--
-- request  time, how many seconds ago that may have been
-- returns  MessagePack [[worker, at, rate, held] …]
-- keys     workers

local found = {}
local signs = call("HGETALL", BASE .. "workers")
for index = 1, #signs, 2 do
  local at, rate, held = unpack(cmsgpack.unpack(signs[index + 1]))
  if at > NOW - request[2] then
    found[#found + 1] = { signs[index], at, rate, held }
  end
end
return cmsgpack.pack(found)
