-- Drop all that is known of a crawl, a bounded number of keys a call.
--
-- request  time, crawl
-- returns  1 when there is more to do: call again
-- keys     crawls, active, purged, N:*
--
-- The first call makes the crawl unknown to everyone; what workers still hold of it is LOST. If the caller dies in
-- between, its keys are in nobody's way, and the next purge of any crawl drops them too.

local number = number_of(request[2])
if number then
  call("SADD", BASE .. "purged", number)
  call("HDEL", BASE .. "crawls", request[2])
  call("SREM", BASE .. "active", number)
  call("UNLINK", key(number, "crawl"))
end
number = call("SRANDMEMBER", BASE .. "purged")
if not number then
  return 0
end
local hosts = key(number, "hosts")
local gates = call("HRANDFIELD", hosts, AT_ONCE)
for _, gate in ipairs(gates) do
  call("UNLINK", key(number, "queue:" .. gate))
  call("HDEL", hosts, gate)
end
if #gates == 0 then
  for _, name in ipairs({ "pages", "parents", "failures", "scope", "open", "waiting", "leases", "delayed",
    "filter", "kept", "children", "reasons" }) do
    call("UNLINK", key(number, name))
  end
  call("SREM", BASE .. "purged", number)
end
return 1
