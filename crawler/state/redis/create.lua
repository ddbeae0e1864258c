-- Write a crawl's record unless there is one of its id.
--
-- request  time, crawl, fields to return, false-positive rate of its filter ("": it has none), then field,
--          value, field, value …  of the hash N:crawl
-- returns  the values of those fields, as they are now; nil when this server has no Bloom filters
-- keys     state, crawls, gates, N:crawl, N:hosts, N:filter

-- A server keeps a hash of short values as a list until it has some hundred, and looks for each from the front. One
-- value that is longer, under a name that no gate has, makes it a table from the start.
local LONG = string.rep(" ", 65)
local CAPACITY = 100000  -- of a filter before it grows, each time to the double: 0.4 MB at one in a million

local number = number_of(request[2])
if not number then
  number = string.format("%d", (call("HGET", KEYS[1], "crawls") or 0) + 1)
  if request[4] ~= "" then
    local made = redis.pcall("BF.RESERVE", key(number, "filter"), request[4], CAPACITY, "EXPANSION", 2)
    if made.err and string.find(made.err, "nknown") then  -- such a command
      return false
    elseif made.err then
      return made
    end
  end
  call("HSET", KEYS[1], "crawls", number)
  local crawl = key(number, "crawl")
  call("HSET", crawl, "name", request[2], "sums", string.rep("\0", 64), unpack(request, 5))  -- all of them 0
  for _, hash in ipairs({ key(number, "hosts"), BASE .. "gates" }) do
    call("HSET", hash, "", LONG)
  end
  call("HSET", BASE .. "crawls", request[2], number)
end
return call("HMGET", key(number, "crawl"), unpack(request[3]))
