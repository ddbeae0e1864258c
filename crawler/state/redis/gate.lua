-- Gates: turns, what holds them back, requests that occupy them.

-- Next turn, latest turn, own interval (Crawl-delay), end of the hold, end of the last flight; of the host's health:
-- gap, end of being down, whether it is prompt; reason of the hold; and the health as the workers write it.
local GATE = "<dddddddBBc0"
local HORIZON = 1  -- seconds by which a claim may take a turn in advance

local function read_gate(name)
  local value = call("HGET", BASE .. "gates", name)
  local gate = { next_at = 0, last_at = 0, interval = 0, held_until = 0, busy_until = 0, gap = 0, down_until = 0,
    prompt = 0, why = "", health = "" }
  if value then
    local rest
    gate.next_at, gate.last_at, gate.interval, gate.held_until, gate.busy_until, gate.gap, gate.down_until,
      gate.prompt, gate.why, rest = struct.unpack(GATE, value)
    gate.health = string.sub(value, rest)
  end
  return gate
end

local function save_gate(name, gate)
  local value = struct.pack(GATE, gate.next_at, gate.last_at, gate.interval, gate.held_until, gate.busy_until,
    gate.gap, gate.down_until, gate.prompt, #gate.why, gate.why)
  call("HSET", BASE .. "gates", name, value .. gate.health)
end

-- Seconds between turns for a crawl with `interval` between its own; 0 when none is needed.
local function step_of(gate, interval)
  return math.max(interval, gate.interval, gate.gap)
end

-- Take a turn; return its start. Turns are not saved up: after a pause the next one starts now. Without any step the
-- turn costs the others nothing.
local function take_turn(gate, step)
  gate.last_at = math.max(NOW, gate.next_at)
  if step > 0 then
    gate.next_at = gate.last_at + step
  end
  return gate.last_at
end

-- A longer step counts from the latest turn on: a Crawl-delay read from robots.txt keeps the first page as far from
-- robots.txt as the pages from each other.
local function keep_apart(gate, step)
  if gate.last_at > 0 then
    gate.next_at = math.max(gate.next_at, gate.last_at + step)
  end
end

-- Ends of the requests that occupy the gate, the soonest first.
local function flights(name, gate)
  if not gate.flights then
    gate.flights = {}
    local found = gate.busy_until > NOW and call("ZRANGEBYSCORE", BASE .. "flights:" .. name, "(" .. exact(NOW), "+inf",
      "WITHSCORES") or {}
    for index = 2, #found, 2 do
      gate.flights[index / 2] = tonumber(found[index])
    end
  end
  return gate.flights
end

-- Of an interval: a turn that began later may have become a slow request that nobody reported yet. Its worker reports
-- it after half an interval; the rest is for the report's way.
local LATELY = 0.75

-- When there is room for one more request beside those under way, if none ends before its time. At most `cap` may
-- be: those that occupy the gate and, unless the host is prompt, the turns that began later than LATELY ago.
local function room_at(name, gate, step, cap)
  local ends, soonest = flights(name, gate), math.huge
  for ended = math.max(#ends - cap + 1, 0), #ends do
    local at = ends[ended] or 0
    if gate.prompt == 0 then
      local recent = cap - 1 - (#ends - ended)  -- turns that leave room beside the flights that are left then
      at = math.max(at, gate.last_at + LATELY * step - recent * step)
    end
    soonest = math.min(soonest, at)
  end
  return soonest
end

-- The gate may open earlier than the lanes behind it were told: they look again when its turn is near.
local function look_again(name, gate)
  local at = gate.down_until > NOW and NOW or gate.next_at - HORIZON
  for _, number in ipairs(call("SMEMBERS", BASE .. "active")) do
    call("ZADD", key(number, "waiting"), "XX", "LT", at, name)
  end
end
