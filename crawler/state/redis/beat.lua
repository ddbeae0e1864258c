-- A worker's sign of life. Those that gave none for long are forgotten here.
--
-- request  time, worker, at (0: goodbye), rate, held, seconds for which a silent one is kept
-- keys     workers

local _, worker, at, rate, held, kept = unpack(request, 1, 6)
local workers = BASE .. "workers"
call("HSET", workers, worker, cmsgpack.pack({ at, rate, held }))
local signs = call("HGETALL", workers)
for index = 1, #signs, 2 do
  if cmsgpack.unpack(signs[index + 1])[1] <= NOW - kept then
    call("HDEL", workers, signs[index])
  end
end
return 1
