-- Queue again what is recorded as unfinished but is neither queued, leased nor delayed: some pages a call.
--
-- parts    crawl
-- request  time, crawl, cursor
-- returns  [cursor to go on with, "0" at the end; how many were queued]; nil when there is no such crawl
-- keys     crawls, active, N:crawl, N:pages, N:queue:*, N:open, N:waiting, N:leases, N:delayed, N:hosts
--
-- Every script keeps these together, so there is something to find only after keys were dropped (evicted, deleted).

local crawl = crawl_named(request[2])
if not crawl then
  return false
end
local number, queued = crawl.number, 0

local function where(page)
  if page.phase == PENDING then
    return "queue:" .. page.gate
  end
  return page.phase == LEASED and "leases" or page.phase == DELAYED and "delayed"
end

local function claimable(gate)
  return call("ZSCORE", key(number, "open"), gate) or call("ZSCORE", key(number, "waiting"), gate)
end

local scanned = call("HSCAN", key(number, "pages"), request[3], "COUNT", AT_ONCE)
for index = 1, #scanned[2], 2 do
  local digest, page = scanned[2][index], read_page(scanned[2][index + 1])
  local place = where(page)
  local lost = place and not call("ZSCORE", key(number, place), digest)
  if lost or (page.phase == PENDING and not lane_of(crawl, page.gate).moved and not claimable(page.gate)) then
    queue(crawl, digest, page)
    queued = queued + 1
  end
end
if queued > 0 then
  call("HDEL", key(number, "crawl"), "completed_at")
  save_crawls()
end
return { scanned[1], queued }
