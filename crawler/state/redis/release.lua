-- Give the leases of a worker back, a bounded number a call.
--
-- parts    crawl
-- request  time, number of a crawl ("" to begin), cursor in its leases
-- ARGV[2]  the worker (8 bytes)
-- returns  [how many, number, cursor to go on with]; the number is "" at the end
-- keys     active, N:crawl, N:pages, N:queue:*, N:open, N:waiting, N:leases, N:hosts

local number, cursor = request[2], request[3]

-- The crawl behind this one.
local function following(after)
  local following = math.huge
  for _, active in ipairs(call("SMEMBERS", BASE .. "active")) do
    if tonumber(active) > after then
      following = math.min(following, active)
    end
  end
  return following < math.huge and string.format("%d", following) or ""
end

if number == "" then
  return { 0, following(0), "0" }
end
local crawl, back = crawl_of(number), 0
local scanned = call("ZSCAN", key(number, "leases"), cursor, "COUNT", AT_ONCE)
for index = 1, #scanned[2], 2 do
  local digest = scanned[2][index]
  local page = crawl and load_page(crawl, digest)
  if page and page.phase == LEASED and string.sub(page.holder, 1, 8) == ARGV[2] then
    call("ZREM", key(number, "leases"), digest)
    queue(crawl, digest, page)
    back = back + 1
  end
end
save_crawls()
cursor = scanned[1]
if cursor == "0" then
  number = following(tonumber(number))
end
return { back, number, cursor }
