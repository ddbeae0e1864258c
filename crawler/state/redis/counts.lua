-- A crawl's sums.
--
-- request  time, crawl, names of sums
-- returns  their values; nil when there is no such crawl
-- keys     crawls, N:crawl

local number = number_of(request[2])
return number and call("HMGET", key(number, "crawl"), unpack(request[3]))
