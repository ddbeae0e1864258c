-- A request occupies a gate until a time, or no longer.
--
-- parts    gate
-- request  time, gate, flight, until (0: it has ended)
-- keys     gates, flights:GATE, active, N:waiting
--
-- The times decide; the key's expiry only cleans up.

local SLACK = 60

local _, name, flight, to = unpack(request, 1, 4)
local flights = BASE .. "flights:" .. name
if to > NOW then
  call("ZADD", flights, to, flight)
else
  call("ZREM", flights, flight)
end
call("ZREMRANGEBYSCORE", flights, "-inf", NOW)
local gate = read_gate(name)
gate.busy_until = tonumber(call("ZRANGE", flights, -1, -1, "WITHSCORES")[2] or 0)
if gate.busy_until > 0 then
  call("EXPIRE", flights, math.ceil(gate.busy_until - NOW) + SLACK)
end
save_gate(name, gate)
look_again(name, gate)
return 1
