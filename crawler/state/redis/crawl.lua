-- A crawl in a call: its sums, lanes and pages, read when first needed, changed in memory, written once at the end.
-- The sorted sets are changed at once.

local SUMS = "<dddddddd"  -- pages discovered, pending, leased, done, skipped, dead; bytes; hosts
local SUM = { [PENDING] = "pending", [DELAYED] = "pending", [LEASED] = "leased", [DONE] = "done",
  [SKIPPED] = "skipped", [DEAD] = "dead" }
local LANE = "<di4i4i4"  -- number of the latest lease, pages pending, leased and done

local crawls = {}

-- The crawl of a number; false when it is gone. `host_limit` is how many pages of a lane may be done.
local function crawl_of(number)
  if crawls[number] == nil then
    local value, dedup, host_limit = unpack(call("HMGET", key(number, "crawl"), "sums", "dedup", "max_pages_per_host"))
    local sums = {}
    if value then
      sums.discovered, sums.pending, sums.leased, sums.done, sums.skipped, sums.dead, sums.bytes, sums.hosts =
        struct.unpack(SUMS, value)
    end
    crawls[number] = value and { number = number, sums = sums, reasons = {}, lanes = {}, pages = {}, changed_pages = {},
      filter = dedup == "bloom" and key(number, "filter"), host_limit = tonumber(host_limit) or math.huge }
  end
  return crawls[number]
end

local function crawl_named(name)
  local number = number_of(name)
  return number and crawl_of(number)
end

---------------------------------------------------------------- lanes

local function lane_of(crawl, gate)
  local lane = crawl.lanes[gate]
  if not lane then
    local value = call("HGET", key(crawl.number, "hosts"), gate)
    lane = { served = 0, pending = 0, leased = 0, done = 0, skipped = 0, dead = 0, changed = false, moved = false }
    if value then
      lane.served, lane.pending, lane.leased, lane.done = struct.unpack(LANE, value)
    else
      crawl.sums.hosts = crawl.sums.hosts + 1
    end
    crawl.lanes[gate] = lane
  end
  return lane
end

-- The lane's pages are only handed out to be skipped.
local function used_up(crawl, lane)
  return lane.done >= crawl.host_limit
end

-- A lane that does not wait (any more) can be claimed from, if there is a page in it.
local function open_lane(crawl, gate)
  local best = call("ZRANGE", key(crawl.number, "queue:" .. gate), 0, 0, "WITHSCORES")
  if best[1] then
    local rank = math.floor(best[2] / RANK) * RANK
    call("ZADD", key(crawl.number, "open"), rank + lane_of(crawl, gate).served, gate)
  else
    call("ZREM", key(crawl.number, "open"), gate)
  end
end

-- Lanes whose pages changed find their place among the crawl's lanes.
local function refresh_lanes(crawl)
  local waiting = key(crawl.number, "waiting")
  for gate, lane in pairs(crawl.lanes) do
    if lane.moved then
      lane.moved = false
      local to = call("ZSCORE", waiting, gate)
      if to == "inf" or (to and used_up(crawl, lane)) then
        call("ZREM", waiting, gate)
        to = nil
      end
      if not to then
        open_lane(crawl, gate)
      end
    end
  end
end

---------------------------------------------------------------- pages

local function load_page(crawl, digest)
  local value = crawl.pages[digest]
  if value == nil then
    value = call("HGET", key(crawl.number, "pages"), digest)
  end
  return value and read_page(value)
end

local function save_page(crawl, digest, page)
  local value = page_value(page)
  crawl.pages[digest], crawl.changed_pages[digest] = value, true
  return value
end

local function count_reason(crawl, phase, reason, change)
  if phase == SKIPPED or phase == DEAD then
    local name = phase .. reason
    crawl.reasons[name] = (crawl.reasons[name] or 0) + change
  end
end

-- The page (without a phase: a new one) comes into a phase. The caller saves it.
local function move(crawl, page, phase, reason)
  local sums, from, to = crawl.sums, SUM[page.phase], SUM[phase]
  if from or phase ~= SKIPPED then  -- a page skipped at once has no lane
    local lane = lane_of(crawl, page.gate)
    if from then
      sums[from], lane[from] = sums[from] - 1, lane[from] - 1
      count_reason(crawl, page.phase, page.reason, -1)
    end
    lane[to], lane.changed = lane[to] + 1, true
    -- A lease that ends makes room in its lane, or uses the lane's limit up.
    lane.moved = lane.moved or (from == "leased" and crawl.host_limit < math.huge)
  end
  sums[to] = sums[to] + 1
  page.phase, page.reason = phase, reason or ""
  count_reason(crawl, phase, page.reason, 1)
  crawl.changed = true
end

-- Queue a page, whatever it was before.
local function queue(crawl, digest, page)
  move(crawl, page, PENDING)
  page.holder = NOBODY
  save_page(crawl, digest, page)
  local place = page.receives > 0 and page.place - RETURNED or page.place
  call("ZADD", key(crawl.number, "queue:" .. page.gate), place, digest)
  lane_of(crawl, page.gate).moved = true
end

-- Put a page aside until a time, or queue it when that has come.
local function queue_at(crawl, digest, page, at)
  if at > NOW then
    move(crawl, page, DELAYED)
    page.holder = NOBODY
    save_page(crawl, digest, page)
    call("ZADD", key(crawl.number, "delayed"), at, digest)
  else
    queue(crawl, digest, page)
  end
end

---------------------------------------------------------------- the end

local function save_crawl(crawl)
  local number, sums, pages, lanes = crawl.number, crawl.sums, {}, {}
  for digest in pairs(crawl.changed_pages) do
    if crawl.pages[digest] then
      pages[#pages + 1] = digest
      pages[#pages + 1] = crawl.pages[digest]
    end
  end
  for gate, lane in pairs(crawl.lanes) do
    if lane.changed then
      lanes[#lanes + 1] = gate
      lanes[#lanes + 1] = struct.pack(LANE, lane.served, lane.pending, lane.leased, lane.done)
    end
  end
  call_all("HSET", key(number, "pages"), pages)
  call_all("HSET", key(number, "hosts"), lanes)
  call("HSET", key(number, "crawl"), "updated_at", exact(NOW), "sums", struct.pack(SUMS, sums.discovered, sums.pending,
    sums.leased, sums.done, sums.skipped, sums.dead, sums.bytes, sums.hosts))
  call(sums.pending + sums.leased > 0 and "SADD" or "SREM", BASE .. "active", number)
  for name, change in pairs(crawl.reasons) do
    if call("HINCRBY", key(number, "reasons"), name, change) <= 0 then
      call("HDEL", key(number, "reasons"), name)
    end
  end
end

-- Write what the call changed.
local function save_crawls()
  for _, crawl in pairs(crawls) do
    if crawl and crawl.changed then
      refresh_lanes(crawl)
      save_crawl(crawl)
    end
  end
end
