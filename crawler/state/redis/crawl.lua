-- A crawl in a call: its sums and its lanes, read when first needed, changed in memory, written once at the end.

local SUMS = { "discovered", "pending", "leased", "done", "skipped", "dead", "bytes", "hosts" }
local SUM = { [PENDING] = "pending", [DELAYED] = "pending", [LEASED] = "leased", [DONE] = "done",
  [SKIPPED] = "skipped", [DEAD] = "dead" }
local LANE = "<dI4I4I4"  -- number of the latest lease, pages pending, leased and done

local crawls = {}

-- The crawl of a number; false when it is gone. `host_limit` is how many pages of a lane may be done.
local function crawl_of(number)
  if crawls[number] == nil then
    local values = call("HMGET", key(number, "crawl"), "name", "dedup", "max_pages_per_host", unpack(SUMS))
    local crawl = values[1] and { number = number, name = values[1], lanes = {}, sums = {}, reasons = {},
      filter = values[2] == "bloom" and key(number, "filter"), host_limit = tonumber(values[3]) or math.huge }
    for index, sum in ipairs(crawl and SUMS or {}) do
      crawl.sums[sum] = tonumber(values[index + 3])
    end
    crawls[number] = crawl
  end
  return crawls[number]
end

local function crawl_named(name)
  local number = number_of(name)
  return number and crawl_of(number)
end

local function add_up(crawl, sum, change)
  crawl.sums[sum] = crawl.sums[sum] + change
  crawl.changed = true
end

---------------------------------------------------------------- lanes

local function lane_of(crawl, gate)
  local lane = crawl.lanes[gate]
  if not lane then
    local value = call("HGET", key(crawl.number, "hosts"), gate)
    lane = { served = 0, pending = 0, leased = 0, done = 0 }
    if value then
      lane.served, lane.pending, lane.leased, lane.done = struct.unpack(LANE, value)
    else
      add_up(crawl, "hosts", 1)
    end
    crawl.lanes[gate] = lane
  end
  return lane
end

-- The lane's pages are only handed out to be skipped.
local function used_up(crawl, lane)
  return lane.done >= crawl.host_limit
end

-- As many pages are leased as may still be done: whether more will be shows when these end.
local function taken_up(crawl, lane)
  return lane.done < crawl.host_limit and lane.done + lane.leased >= crawl.host_limit
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

local function close_lane(crawl, gate, to)
  call("ZREM", key(crawl.number, "open"), gate)
  call("ZADD", key(crawl.number, "waiting"), to, gate)
end

-- The lane's place among the crawl's lanes, after its pages changed.
local function refresh(crawl, gate)
  local lane, to = lane_of(crawl, gate), call("ZSCORE", key(crawl.number, "waiting"), gate)
  if not to then
    open_lane(crawl, gate)
  elseif to == "inf" or used_up(crawl, lane) then
    call("ZREM", key(crawl.number, "waiting"), gate)
    open_lane(crawl, gate)
  end
end

local function refresh_all(crawl)
  for gate, lane in pairs(crawl.lanes) do
    if lane.moved then
      lane.moved = false
      refresh(crawl, gate)
    end
  end
end

---------------------------------------------------------------- pages

local function count(crawl, page, change)
  local sum = SUM[page.phase]
  add_up(crawl, sum, change)
  if page.phase == SKIPPED or page.phase == DEAD then
    local name = page.phase .. page.reason
    crawl.reasons[name] = (crawl.reasons[name] or 0) + change
  else
    local lane = lane_of(crawl, page.gate)
    lane[sum] = math.max(lane[sum] + change, 0)
    lane.changed = true
    -- A lease that ends makes room in its lane, or uses the lane's limit up.
    lane.moved = lane.moved or (page.phase == LEASED and change < 0 and crawl.host_limit < math.huge)
  end
end

-- The page (without a phase: a new one) comes into a phase. The caller saves it.
local function move(crawl, page, phase, reason)
  if page.phase then
    count(crawl, page, -1)
  end
  page.phase, page.reason = phase, reason or ""
  count(crawl, page, 1)
end

-- Queue a page, whatever it was before.
local function queue(crawl, digest, page)
  move(crawl, page, PENDING)
  page.holder = NOBODY
  save_page(crawl.number, digest, page)
  local place = page.receives > 0 and page.place - RETURNED or page.place
  call("ZADD", key(crawl.number, "queue:" .. page.gate), place, digest)
  lane_of(crawl, page.gate).moved = true
end

-- Put a page aside until a time, or queue it when that has come.
local function queue_at(crawl, digest, page, at)
  if at > NOW then
    move(crawl, page, DELAYED)
    page.holder = NOBODY
    save_page(crawl.number, digest, page)
    call("ZADD", key(crawl.number, "delayed"), at, digest)
  else
    queue(crawl, digest, page)
  end
end

---------------------------------------------------------------- the end

local function save_lanes(crawl)
  local values = {}
  for gate, lane in pairs(crawl.lanes) do
    if lane.changed then
      values[#values + 1] = gate
      values[#values + 1] = struct.pack(LANE, lane.served, lane.pending, lane.leased, lane.done)
    end
  end
  for first = 1, #values, 2 * AT_ONCE do
    call("HSET", key(crawl.number, "hosts"), unpack(values, first, math.min(first + 2 * AT_ONCE - 1, #values)))
  end
end

local function save_sums(crawl)
  local values = { "updated_at", exact(NOW) }
  for sum, value in pairs(crawl.sums) do
    values[#values + 1] = sum
    values[#values + 1] = value
  end
  call("HSET", key(crawl.number, "crawl"), unpack(values))
  for name, change in pairs(crawl.reasons) do
    if call("HINCRBY", key(crawl.number, "reasons"), name, change) <= 0 then
      call("HDEL", key(crawl.number, "reasons"), name)
    end
  end
  local outstanding = crawl.sums.pending + crawl.sums.leased
  call(outstanding > 0 and "SADD" or "SREM", BASE .. "active", crawl.number)
end

-- Write what the call changed.
local function save_crawls()
  for _, crawl in pairs(crawls) do
    if crawl and crawl.changed then
      refresh_all(crawl)
      save_lanes(crawl)
      save_sums(crawl)
    end
  end
end
