-- Mark a crawl that has nothing outstanding. The sums are exact, so they decide.
--
-- parts    crawl
-- request  time, crawl
-- returns  1 or 0; nil when there is no such crawl
-- keys     crawls, N:crawl

local crawl = crawl_named(request[2])
if not crawl then
  return false
end
if crawl.sums.pending + crawl.sums.leased > 0 then
  return 0
end
local name = key(crawl.number, "crawl")
if call("HSETNX", name, "completed_at", exact(NOW)) == 1 then
  call("HSET", name, "updated_at", exact(NOW))
  call("HDEL", name, "paused")
end
return 1
