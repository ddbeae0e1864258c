-- Take one turn at a gate, however far away, and whoever occupies it.
--
-- parts    gate
-- request  time, crawl, gate
-- returns  [the server's time, start of the turn]; nil when there is no such crawl
-- keys     crawls, gates, N:crawl
--
-- Lanes that are open behind this gate are found closed, and moved, by the next claim.

local number = number_of(request[2])
if not number then
  return false
end
local gate = read_gate(request[3])
local start = take_turn(gate, step_of(gate, tonumber(call("HGET", key(number, "crawl"), "interval"))))
save_gate(request[3], gate)
return { exact(NOW), exact(start) }
