-- Replace a crawl's settings.
--
-- request  time, crawl, its `dedup`, then field, value, field, value …  of the hash N:crawl
-- returns  1; 0 when it was made with another `dedup`: nothing was done; nil when there is no such crawl
-- keys     crawls, N:crawl

local number = number_of(request[2])
if not number then
  return false
end
local crawl = key(number, "crawl")
if call("HGET", crawl, "dedup") ~= request[3] then
  return 0
end
call("HSET", crawl, "updated_at", exact(NOW), "amended_at", exact(NOW), unpack(request, 4))
return 1
