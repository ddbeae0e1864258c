-- Raise a gate, or set its own interval.
--
-- request  time, gate, time before which there is no turn, interval (nil: as it is)
-- keys     gates
--
-- A longer interval counts from the latest turn on: a Crawl-delay read from robots.txt keeps the first page as far
-- from robots.txt as the pages from each other.

local _, name, to, interval = unpack(request, 1, 4)
local gate = read_gate(name)
gate.next_at = math.max(gate.next_at, to)
if interval then
  gate.interval = interval
  if gate.last_at > 0 then
    gate.next_at = math.max(gate.next_at, gate.last_at + interval)
  end
end
save_gate(name, gate)
return 1
