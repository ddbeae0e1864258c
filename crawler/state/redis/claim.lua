-- Hand out pages whose gate opens soon: best rank first, hosts in turn, a turn at the gate with every lease.
--
-- request  time, limit, crawl (nil: any), whether this claim was sent before and its answer may have been lost
-- ARGV[2]  the holder: worker (8 bytes), number of the claim (4)
-- returns  [MessagePack [the server's time, [[crawl, N, limit that is used up or "", seconds a lease lasts] …]],
--          the leases (LEASE)]; nil when there is no such crawl
-- keys     state, crawls, active, gates, N:crawl, N:pages, N:parents, N:hosts, N:queue:*, N:open, N:waiting,
--          N:leases, N:delayed
--
-- First expired leases and due delays become pending, and gates that came near open their lanes. Then the lanes of
-- `open` are served in order, each moving behind the others of its rank. The cost follows the leases handed out and
-- the lanes that opened or closed, not the number of hosts or pages.

local HORIZON = 1  -- seconds by which a turn may be taken in advance
local LEASE = "<Hc16dI4c0I4c0"  -- index of the crawl, digest, start, URL of the parent, page as it was claimed

local limit, again, holder = request[2], request[4], ARGV[2]
local gates, moved = {}, {}

local function gate_of(name)
  if not gates[name] then
    gates[name] = read_gate(name)
  end
  return gates[name]
end

local function near(gate)
  return gate.next_at <= NOW + HORIZON
end

-- Leased pages become pending ahead of all others; `receives` stays, to tell that a holder failed.
local function give_back(number, digests, undo)
  local back, lanes = 0, {}
  for _, digest in ipairs(digests) do
    local page = load_page(number, digest)
    if not page then
      call("ZREM", key(number, "leases"), digest)
    elseif not undo or page.holder == holder then
      if undo then
        page.receives = page.receives - 1  -- nobody ever saw that lease
      end
      queue(number, digest, page)
      call("ZREM", key(number, "leases"), digest)
      lanes[page.gate] = true
      back = back + 1
    end
  end
  if back > 0 then
    refresh_all(number, lanes)
    add_up(number, { leased = -back, pending = back })
  end
end

local function end_delays(number, digests)
  local lanes = {}
  for _, digest in ipairs(digests) do
    local page = load_page(number, digest)
    if page then
      queue(number, digest, page)
      lanes[page.gate] = true
    end
    call("ZREM", key(number, "delayed"), digest)
  end
  refresh_all(number, lanes)
end

-- Lanes whose gate has come near, the longest due first, can be claimed from.
local function open_due(number)
  local waiting = key(number, "waiting")
  for _, name in ipairs(call("ZRANGEBYSCORE", waiting, "-inf", NOW + HORIZON, "LIMIT", 0, AT_ONCE)) do
    local gate = gate_of(name)
    if near(gate) then
      call("ZREM", waiting, name)
      refresh(number, name)
    else  -- another crawl, or a hold, has moved its turn
      call("ZADD", waiting, gate.next_at, name)
    end
  end
end

-- A crawl whose limit is used up waits for no gate and no delay.
local function open_all(number)
  end_delays(number, call("ZRANGE", key(number, "delayed"), 0, AT_ONCE - 1))
  for _, name in ipairs(call("ZRANGE", key(number, "waiting"), 0, limit - 1)) do
    call("ZREM", key(number, "waiting"), name)
    refresh(number, name)
  end
end

local function prepare(number)
  give_back(number, call("ZRANGEBYSCORE", key(number, "leases"), "-inf", NOW, "LIMIT", 0, AT_ONCE), false)
  end_delays(number, call("ZRANGEBYSCORE", key(number, "delayed"), "-inf", NOW, "LIMIT", 0, AT_ONCE))
  local name, interval, lease, max_pages, max_time, began_at, done, leased = unpack(call("HMGET", key(number, "crawl"),
    "name", "interval", "lease", "max_pages", "max_time", "began_at", "done", "leased"))
  local crawl = { number = number, name = name, interval = tonumber(interval), lease = tonumber(lease), limit = "",
    room = math.huge, served = {}, handed = 0 }
  if max_time and max_time ~= "" and NOW >= began_at + max_time then
    crawl.limit = "max-time"
  elseif max_pages and max_pages ~= "" then
    if done + 0 >= max_pages + 0 then
      crawl.limit = "max-pages"
    else
      crawl.room = max_pages - done - leased
    end
  end
  if crawl.limit == "" then
    open_due(number)
  else
    open_all(number)
  end
  return crawl
end

-- The crawl's next lane, and its place among the lanes of all crawls.
local function look(crawl)
  local first = crawl.room >= 1 and call("ZRANGE", key(crawl.number, "open"), 0, 0, "WITHSCORES") or {}
  crawl.gate, crawl.order = first[1], tonumber(first[2])
end

local function first_of(crawls)
  local first
  for _, crawl in ipairs(crawls) do
    if crawl.gate and (not first or crawl.order < first.order) then
      first = crawl
    end
  end
  return first
end

local parent_urls = {}

local function parent_url(number, parent)
  if parent == SEED then
    return ""
  end
  local name = number .. parent
  if not parent_urls[name] then
    local page = load_page(number, parent)
    parent_urls[name] = page and page.url or call("HGET", key(number, "parents"), parent) or ""
  end
  return parent_urls[name]
end

-- The best page of the crawl's next lane; nothing when the keys that `open` speaks of were dropped.
local function lease(crawl, start, served)
  local number = crawl.number
  local lane = key(number, "queue:" .. crawl.gate)
  local best = call("ZRANGE", lane, 0, 1, "WITHSCORES")
  local digest = best[1]
  local page = digest and load_page(number, digest)
  if not page then
    call("ZREM", lane, digest or "")
    refresh(number, crawl.gate)
    return nil
  end
  page.phase, page.holder, page.fence = LEASED, holder, page.fence + 1
  page.receives = math.min(page.receives + 1, MOST)
  local value, from = page_value(page), parent_url(number, page.parent)
  call("HSET", key(number, "pages"), digest, value)
  call("ZADD", key(number, "leases"), NOW + crawl.lease, digest)
  call("ZREM", lane, digest)
  if best[3] then
    call("ZADD", key(number, "open"), math.floor(best[4] / RANK) * RANK + served, crawl.gate)
  else
    call("ZREM", key(number, "open"), crawl.gate)
  end
  crawl.served[crawl.gate] = served
  crawl.room = crawl.room - 1
  crawl.handed = crawl.handed + 1
  return struct.pack(LEASE, crawl.index, digest, start, #from, from, #value, value)
end

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
    give_back(number, call("ZRANGE", key(number, "leases"), 0, -1), true)
  end
end
local crawls, described = {}, {}
for index, number in ipairs(numbers) do
  local crawl = prepare(number)
  crawl.index = index
  crawls[index] = crawl
  described[index] = { crawl.name, number, crawl.limit, crawl.lease }
  look(crawl)
end

local leases, closed = {}, 0
local served = tonumber(call("HGET", KEYS[1], "served") or 0)
while #leases < limit and closed < AT_ONCE + limit do
  local crawl = first_of(crawls)
  if not crawl then
    break
  end
  local gate = gate_of(crawl.gate)
  local handed = #leases
  if crawl.limit ~= "" then
    leases[handed + 1] = lease(crawl, NOW, served + 1)
  elseif near(gate) then
    local start = take_turn(gate, crawl.interval)
    moved[crawl.gate] = true
    leases[handed + 1] = lease(crawl, start, served + 1)
  else
    call("ZREM", key(crawl.number, "open"), crawl.gate)
    call("ZADD", key(crawl.number, "waiting"), gate.next_at, crawl.gate)
  end
  if #leases > handed then
    served = served + 1
  else
    closed = closed + 1
  end
  look(crawl)
end

for name in pairs(moved) do
  if gates[name].next_at > NOW then  -- otherwise no interval paces it, and nothing changed
    save_gate(name, gates[name])
  end
end
for _, crawl in ipairs(crawls) do
  if crawl.handed > 0 then
    for name, latest in pairs(crawl.served) do
      call("HSET", key(crawl.number, "hosts"), name, latest)
    end
    add_up(crawl.number, { leased = crawl.handed, pending = -crawl.handed })
  end
end
if #leases > 0 then
  call("HSET", KEYS[1], "served", served)
end
return { cmsgpack.pack({ NOW, described }), table.concat(leases) }
