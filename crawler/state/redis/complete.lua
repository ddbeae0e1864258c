-- Mark a crawl that has nothing outstanding. The sums are exact, so they decide.
--
-- request  time, crawl
-- returns  1 or 0; nil when there is no such crawl
-- keys     crawls, N:crawl

local number = number_of(request[2])
if not number then
  return false
end
local crawl = key(number, "crawl")
local left = call("HMGET", crawl, "pending", "leased")
if left[1] + left[2] > 0 then
  return 0
end
if call("HSETNX", crawl, "completed_at", exact(NOW)) == 1 then
  call("HSET", crawl, "updated_at", exact(NOW))
end
return 1
