-- The workers that are alive.
--
-- request  time, seconds a worker counts as alive
-- returns  MessagePack [[worker, at, rate, held] …]
-- keys     workers

local alive = {}
local signs = call("HGETALL", BASE .. "workers")
for index = 1, #signs, 2 do
  local at, rate, held = unpack(cmsgpack.unpack(signs[index + 1]))
  if at > NOW - request[2] then
    alive[#alive + 1] = { signs[index], at, rate, held }
  end
end
return cmsgpack.pack(alive)
