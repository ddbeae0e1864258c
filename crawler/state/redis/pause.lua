-- Pause a crawl that is not complete, or end its pause.
--
-- request  time, crawl, whether it is to be paused
-- returns  1 when that changed anything, else 0; nil when there is no such crawl
-- keys     crawls, N:crawl

local number = number_of(request[2])
if not number then
  return false
end
local crawl = key(number, "crawl")
if not request[3] then
  return call("HDEL", crawl, "paused")
end
return call("HEXISTS", crawl, "completed_at") == 0 and call("HSETNX", crawl, "paused", "1") or 0
