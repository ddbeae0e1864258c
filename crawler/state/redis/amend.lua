-- Replace a crawl's settings.
--
-- request  time, crawl, field, value, field, value …  of the hash N:crawl
-- returns  nil when there is no such crawl
-- keys     crawls, N:crawl

local number = number_of(request[2])
if not number then
  return false
end
call("HSET", key(number, "crawl"), "updated_at", exact(NOW), "amended_at", exact(NOW), unpack(request, 3))
return number
