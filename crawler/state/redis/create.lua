-- Write a crawl's record unless there is one of its id.
--
-- request  time, crawl, fields to return, then field, value, field, value …  of the hash N:crawl
-- returns  the values of those fields, as they are now
-- keys     state, crawls, N:crawl

local number = number_of(request[2])
if not number then
  number = tostring(call("HINCRBY", KEYS[1], "crawls", 1))
  local crawl = key(number, "crawl")
  call("HSET", crawl, "name", request[2], unpack(request, 4))
  for _, sum in ipairs({ "discovered", "pending", "leased", "done", "skipped", "dead", "bytes", "hosts" }) do
    call("HSET", crawl, sum, 0)
  end
  call("HSET", BASE .. "crawls", request[2], number)
end
return call("HMGET", key(number, "crawl"), unpack(request[3]))
