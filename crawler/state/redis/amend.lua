-- Replace a crawl's settings.
--
-- request  time, crawl, its `dedup`, then field, value, field, value …  of the hash N:crawl
-- returns  1; 0 when it was made with another `dedup`: nothing was done; nil when there is no such crawl
-- keys     crawls, N:crawl, N:waiting

local number = number_of(request[2])
if not number then
  return false
end
local crawl, waiting = key(number, "crawl"), key(number, "waiting")
if call("HGET", crawl, "dedup") ~= request[3] then
  return 0
end
call("HSET", crawl, "updated_at", exact(NOW), "amended_at", exact(NOW), unpack(request, 4))
call("ZUNIONSTORE", waiting, 1, waiting, "WEIGHTS", 0)  -- the lanes that wait for a limit look again
return 1
