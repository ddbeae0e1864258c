-- A crawl's sums.
--
-- request  time, crawl
-- returns  [its sums (SUMS), [phase and reason, how many pages, …]]; nil when there is no such crawl
-- keys     crawls, N:crawl, N:reasons

local number = number_of(request[2])
if not number then
  return false
end
return { call("HGET", key(number, "crawl"), "sums"), call("HGETALL", key(number, "reasons")) }
