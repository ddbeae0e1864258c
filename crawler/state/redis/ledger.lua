-- Some pages of a crawl.
--
-- request  time, crawl, cursor, phases
-- returns  [cursor to go on with, "0" at the end; the pages (LINE); 1 when pages may come again, else 0]; nil when
--          there is no such crawl
-- keys     crawls, N:crawl, N:pages, N:failures
--
-- Without a filter the hash only grows, and a scan meets each page once. With one it shrinks too, and a scan may meet
-- a page again.

local LINE = "<c16I4c0I4c0"  -- digest, page, failures

local number = number_of(request[2])
if not number then
  return false
end
local wanted = {}
for _, phase in ipairs(request[4]) do
  wanted[phase] = true
end
local lines = {}
local scanned = call("HSCAN", key(number, "pages"), request[3], "COUNT", AT_ONCE)
for index = 1, #scanned[2], 2 do
  local digest, page = scanned[2][index], scanned[2][index + 1]
  if wanted[string.byte(page)] then
    local failures = call("HGET", key(number, "failures"), digest) or ""
    lines[#lines + 1] = struct.pack(LINE, digest, #page, page, #failures, failures)
  end
end
local shrinks = call("HGET", key(number, "crawl"), "dedup") == "bloom"
return { scanned[1], table.concat(lines), shrinks and 1 or 0 }
