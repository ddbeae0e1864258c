-- Some of the gates behind which a crawl has pages.
--
-- request  time, crawl, cursor
-- returns  [cursor to go on with, "0" at the end; the server's time; the crawl's interval; gate, lane (LANE), what is
--          kept of the gate (GATE) or "", three a gate …]; nil when there is no such crawl
-- keys     crawls, N:crawl, N:hosts, gates
--
-- The hash only grows, so a scan meets each gate once.

local number = number_of(request[2])
if not number then
  return false
end
local scanned = call("HSCAN", key(number, "hosts"), request[3], "COUNT", AT_ONCE)
local answer = { scanned[1], exact(NOW), call("HGET", key(number, "crawl"), "interval") }
for index = 1, #scanned[2], 2 do
  local gate = scanned[2][index]
  if gate ~= "" then  -- which makes the hash a table
    answer[#answer + 1] = gate
    answer[#answer + 1] = scanned[2][index + 1]
    answer[#answer + 1] = call("HGET", BASE .. "gates", gate) or ""
  end
end
return answer
