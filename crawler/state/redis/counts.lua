-- A crawl's sums.
--
-- request  time, crawl, names of sums
-- returns  [their values, [phase and reason, how many pages, …]]; nil when there is no such crawl
-- keys     crawls, N:crawl, N:reasons

local number = number_of(request[2])
if not number then
  return false
end
return { call("HMGET", key(number, "crawl"), unpack(request[3])), call("HGETALL", key(number, "reasons")) }
