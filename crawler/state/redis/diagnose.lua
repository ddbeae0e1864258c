-- Replace what is known of a host's health.
--
-- parts    gate
-- request  time, gate, its gap, whether it is prompt (1 or 0), time until which it is down
-- ARGV[2]  the health as leases tell it
-- keys     gates, active, N:waiting

local name = request[2]
local gate = read_gate(name)
gate.gap, gate.prompt, gate.down_until = unpack(request, 3, 5)
gate.health = ARGV[2]
keep_apart(gate, gate.gap)
save_gate(name, gate)
look_again(name, gate)
return 1
