-- The records of all crawls, in no order.
--
-- request  time, fields of the hash N:crawl
-- returns  [[the crawl's number, values …] …]
-- keys     crawls, N:crawl

local records = {}
for _, number in ipairs(call("HVALS", BASE .. "crawls")) do
  records[#records + 1] = { number, unpack(call("HMGET", key(number, "crawl"), unpack(request[2]))) }
end
return records
