-- Hand out pages whose gate opens soon: best rank first, hosts in turn, a turn at the gate with every lease.
--
-- parts    crawl, gate
-- request  time, limit, crawl (nil: any), whether this claim was sent before and its answer may have been lost
-- ARGV[2]  the holder: worker (8 bytes), number of the claim (4)
-- returns  [MessagePack [the server's time, [[crawl, N, seconds a lease lasts] …]], the leases (LEASE)]; nil when
--          there is no such crawl
-- keys     state, crawls, active, gates, flights:*, N:crawl, N:pages, N:parents, N:hosts, N:queue:*, N:open,
--          N:waiting, N:leases, N:delayed
--
-- First expired leases and due delays become pending, and lanes that may have opened are looked at. Then the lanes of
-- `open` are served in order, each moving behind the others of its rank. The cost follows the leases handed out and
-- the lanes that opened or closed, not the number of hosts or pages.

local NONE, MAX_PAGES, MAX_PAGES_PER_HOST, MAX_TIME, DOWN = 0, 1, 2, 3, 4  -- limits of a lease

-- Index of the crawl, limit, digest, start, seconds between turns; health, URL of the parent, page as it was claimed.
local LEASE = "<HBc16ddI4c0I4c0I4c0"

local limit, again, holder = request[2], request[4], ARGV[2]
local gates, turned = {}, {}

local function gate_of(name)
  if not gates[name] then
    gates[name] = read_gate(name)
  end
  return gates[name]
end

---------------------------------------------------------------- what is due

-- Leased pages become pending ahead of all others; `receives` stays, to tell that a holder failed.
local function give_back(crawl, digests, undo)
  for _, digest in ipairs(digests) do
    local page = load_page(crawl, digest)
    if not page then
      call("ZREM", key(crawl.number, "leases"), digest)
    elseif not undo or page.holder == holder then
      if undo then
        page.receives = page.receives - 1  -- nobody ever saw that lease
      end
      queue(crawl, digest, page)
      call("ZREM", key(crawl.number, "leases"), digest)
    end
  end
end

local function end_delays(crawl, digests)
  for _, digest in ipairs(digests) do
    local page = load_page(crawl, digest)
    if page then
      queue(crawl, digest, page)
    end
    call("ZREM", key(crawl.number, "delayed"), digest)
  end
end

-- The limit with which the next page of a lane is handed out, and the time at which it can be, as far as is known.
local function outlook(crawl, name)
  local lane = lane_of(crawl, name)
  if crawl.limit ~= NONE then
    return crawl.limit, NOW
  elseif used_up(crawl, lane) then
    return MAX_PAGES_PER_HOST, NOW
  elseif lane.done + lane.leased >= crawl.host_limit then
    return NONE, math.huge  -- until one of those that are leased ends
  end
  local gate = gate_of(name)
  if gate.down_until > NOW then
    return DOWN, NOW
  end
  local at = gate.next_at - HORIZON
  if crawl.interval > 0 then
    at = math.max(at, room_at(name, gate, step_of(gate, crawl.interval), crawl.cap))
  end
  return NONE, at
end

-- Lanes that may have opened, the longest due first. A crawl whose limit is used up waits for no gate.
local function open_due(crawl)
  local waiting = key(crawl.number, "waiting")
  local to = crawl.limit == NONE and NOW or "+inf"
  for _, name in ipairs(call("ZRANGEBYSCORE", waiting, "-inf", to, "LIMIT", 0, AT_ONCE)) do
    local _, at = outlook(crawl, name)
    if at <= NOW then
      call("ZREM", waiting, name)
      open_lane(crawl, name)
    else  -- another crawl, or a hold, has moved its turn
      call("ZADD", waiting, at, name)
    end
  end
end

local function limit_of(crawl, max_pages, max_time, began_at)
  if max_time and NOW >= began_at + max_time then
    return MAX_TIME
  end
  return max_pages and crawl.sums.done >= max_pages and MAX_PAGES or NONE
end

local function prepare(crawl)
  local number = crawl.number
  give_back(crawl, call("ZRANGEBYSCORE", key(number, "leases"), "-inf", NOW, "LIMIT", 0, AT_ONCE), false)
  local name, interval, lease, cap, max_pages, max_time, began_at, paused = unpack(call("HMGET", key(number, "crawl"),
    "name", "interval", "lease", "in_flight_per_host", "max_pages", "max_time", "began_at", "paused"))
  crawl.name, crawl.interval, crawl.lease, crawl.cap = name, tonumber(interval), lease + 0, cap + 0
  if paused then  -- its delays and lanes wait for the claims behind the pause
    crawl.room = 0
    return
  end
  max_pages = tonumber(max_pages)
  crawl.limit = limit_of(crawl, max_pages, tonumber(max_time), began_at)
  crawl.room = crawl.limit == NONE and max_pages and max_pages - crawl.sums.done - crawl.sums.leased or math.huge
  local due = crawl.limit == NONE and NOW or "+inf"  -- a crawl whose limit is used up waits for no delay
  end_delays(crawl, call("ZRANGEBYSCORE", key(number, "delayed"), "-inf", due, "LIMIT", 0, AT_ONCE))
  refresh_lanes(crawl)
  open_due(crawl)
end

---------------------------------------------------------------- leases

-- The crawl's next lane, and its place among the lanes of all crawls.
local function look(crawl)
  local first = crawl.room >= 1 and call("ZRANGE", key(crawl.number, "open"), 0, 0, "WITHSCORES") or {}
  crawl.gate, crawl.order = first[1], tonumber(first[2])
end

local function first_of(some)
  local first
  for _, crawl in ipairs(some) do
    if crawl.gate and (not first or crawl.order < first.order) then
      first = crawl
    end
  end
  return first
end

local parent_urls = {}

local function parent_url(crawl, parent)
  if parent == SEED then
    return ""
  end
  local name = crawl.number .. parent
  if not parent_urls[name] then
    local page = load_page(crawl, parent)
    parent_urls[name] = page and page.url or call("HGET", key(crawl.number, "parents"), parent) or ""
  end
  return parent_urls[name]
end

-- Take the best page of the crawl's next lane; nothing when the keys that `open` speaks of were dropped.
local function take_page(crawl, served)
  local number, lane = crawl.number, key(crawl.number, "queue:" .. crawl.gate)
  local best = call("ZRANGE", lane, 0, 1, "WITHSCORES")
  local digest = best[1]
  local page = digest and load_page(crawl, digest)
  if not page then
    call("ZREM", lane, digest or "")
    open_lane(crawl, crawl.gate)
    return nil
  end
  move(crawl, page, LEASED)
  page.holder, page.fence, page.receives = holder, page.fence + 1, math.min(page.receives + 1, MOST)
  call("ZADD", key(number, "leases"), NOW + crawl.lease, digest)
  call("ZREM", lane, digest)
  if best[3] then
    call("ZADD", key(number, "open"), math.floor(best[4] / RANK) * RANK + served, crawl.gate)
  else
    call("ZREM", key(number, "open"), crawl.gate)
  end
  lane_of(crawl, crawl.gate).served = served
  crawl.room = crawl.room - 1
  return digest, page
end

local function lease(crawl, limited, served)
  local name = crawl.gate
  local digest, page = take_page(crawl, served)
  if not page then
    return nil
  end
  local gate, start = gate_of(name), NOW
  local step = step_of(gate, crawl.interval)
  if limited == NONE then
    start = take_turn(gate, step)
    if step > 0 then  -- otherwise nothing paces it, and nothing changed
      turned[name] = true
    end
  end
  local value, from = save_page(crawl, digest, page), parent_url(crawl, page.parent)
  return struct.pack(LEASE, crawl.index, limited, digest, start, step, #gate.health, gate.health, #from, from, #value,
    value)
end

---------------------------------------------------------------- the claim

local numbers
if request[3] then
  numbers = { number_of(request[3]) or nil }
  if not numbers[1] then
    return false
  end
else
  numbers = call("SMEMBERS", BASE .. "active")
  table.sort(numbers, function(one, other) return tonumber(one) < tonumber(other) end)
end
if again then  -- the claim of that number may have been for another crawl
  for _, number in ipairs(call("SMEMBERS", BASE .. "active")) do
    give_back(crawl_of(number), call("ZRANGE", key(number, "leases"), 0, -1), true)
  end
end
local claimed, described = {}, {}
for index, number in ipairs(numbers) do
  local crawl = crawl_of(number)
  prepare(crawl)
  crawl.index = index
  claimed[index] = crawl
  described[index] = { crawl.name, number, crawl.lease }
  look(crawl)
end

local leases, closed = {}, 0
local served = tonumber(call("HGET", KEYS[1], "served") or 0)
while #leases < limit and closed < AT_ONCE + limit do
  local crawl = first_of(claimed)
  if not crawl then
    break
  end
  local limited, at = outlook(crawl, crawl.gate)
  local leased = at <= NOW and lease(crawl, limited, served + 1)
  if leased then
    leases[#leases + 1] = leased
    served = served + 1
  else
    closed = closed + 1
    if at > NOW then
      call("ZREM", key(crawl.number, "open"), crawl.gate)
      call("ZADD", key(crawl.number, "waiting"), at, crawl.gate)
    end
  end
  look(crawl)
end

for name in pairs(turned) do
  save_gate(name, gates[name])
end
if #leases > 0 then
  call("HSET", KEYS[1], "served", served)
end
save_crawls()
return { cmsgpack.pack({ NOW, described }), table.concat(leases) }
