-- Raise a gate, or set its own interval.
--
-- parts    gate
-- request  time, gate, time before which there is no turn, why, interval (nil: as it is)
-- keys     gates, active, N:waiting

local _, name, to, why, interval = unpack(request, 1, 5)
local gate = read_gate(name)
gate.next_at = math.max(gate.next_at, to)
if to > gate.held_until then
  gate.held_until, gate.why = to, why
end
if interval then
  gate.interval = interval
  keep_apart(gate, interval)
  look_again(name, gate)  -- a shorter one lets turns out of sight sooner
end
save_gate(name, gate)
return 1
