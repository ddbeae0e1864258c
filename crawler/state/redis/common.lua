-- Put before every script of this folder: names of keys, the page as a string, lanes, sums.
--
-- KEYS[1]  {name}:state   All other keys begin like it up to the colon: one hash tag, so one slot of a cluster.
-- ARGV[1]  MessagePack array; its first element is the time to go by, or nil for the server's own.
-- ARGV[2…] what a script says: digests of 16 bytes each, one behind the other, or other bytes.
--
-- Keys of a state
--   state             hash    schema, crawls (number of the latest), served (number of the latest lease)
--   crawls            hash    crawl's id -> its number, which is never used again
--   active            set     numbers of the crawls that have pages pending or leased
--   purged            set     numbers of the crawls that are being dropped
--   gates             hash    gate -> next turn, latest turn, interval (GATE)
--   fact:NAME         string  end, nonce, value; expires some time after its end
--   workers           hash    worker -> MessagePack [at, rate, held]
-- Keys of the crawl with number N
--   N:crawl           hash    the record, the settings that scripts need, the sums
--   N:pages           hash    digest -> page (PAGE): the visited set, or what of it is not in the filter
--   N:parents         hash    digest -> URL of parents that have no record
--   N:failures        hash    digest -> MessagePack [[time, reason, error] …], the latest last
--   N:scope           set     sites that seeds brought
--   N:hosts           hash    gate -> number of the lane's latest lease: hosts take turns by it
--   N:queue:GATE      zset    the lane of a gate: its pending pages by place
--   N:open            zset    gates of lanes to claim from, by rank of the lane's best page and latest lease
--   N:waiting         zset    gates of lanes whose gate is closed, by a time before which it surely is
--   N:leases          zset    leased pages by the end of the lease
--   N:delayed         zset    delayed pages by the time they are due
--   with `dedup` bloom also
--   N:filter          module  Bloom filter of the pages that have no record any more
--   N:kept            zset    parent's digest and page's, of ended pages whose record waits for the parent's end
--   N:children        hash    digest -> how many of the pages that it added are not done or skipped
--
-- A lane with pending pages is in exactly one of `open` and `waiting`, an empty one in neither. A gate's next turn
-- only ever moves later, so what `waiting` says may be too early, never too late: who finds it too early corrects it.
--
-- A script that fails leaves behind what it wrote. None fails after its first write: memory and the right to write
-- are checked by the server at that one.

local call = redis.call
local BASE = string.sub(KEYS[1], 1, -6)
local request = cmsgpack.unpack(ARGV[1])
local NOW = request[1]
if not NOW then
  local time = call("TIME")
  NOW = time[1] + time[2] / 1e6
end

local PENDING, LEASED, DONE, SKIPPED, DEAD, DELAYED = 0, 1, 2, 3, 4, 5

-- phase, failures, receives, fence, depth, place, time found, holder (worker 8, claim 4), parent, gate, reason; URL
local PAGE = "<BHHI4I4ddc12c16I4c0I4c0"
local NOBODY = string.rep("\0", 12)
local SEED = string.rep("\0", 16)
local MOST = 65535  -- of failures and receives that are counted

-- A page's place in its lane: priority (0 to 20) * 2^47 + depth * 2^33 + number in order of discovery, below 2^52.
-- Integers below 2^53 are exact in a score. What an expired lease gives back is ahead of every page that was never
-- handed out.
local RANK = 2 ^ 33
local PRIORITY = 2 ^ 47
local RETURNED = 2 ^ 52
local DEEPEST = 2 ^ 14 - 1

local GATE = "<ddd"
local AT_ONCE = 1000  -- pages or lanes that one call takes care of beside what it was asked for

local function number_of(crawl)
  return call("HGET", BASE .. "crawls", crawl)
end

local function key(number, name)
  return BASE .. number .. ":" .. name
end

local function digest_at(index)
  return string.sub(ARGV[2], 16 * index - 15, 16 * index)
end

-- Times leave as text that holds a double exactly.
local function exact(time)
  return string.format("%.17g", time)
end

---------------------------------------------------------------- pages

local function read_page(value)
  local page, rest = {}, 0
  page.phase, page.failures, page.receives, page.fence, page.depth, page.place, page.found_at, page.holder,
    page.parent, page.gate, page.reason, rest = struct.unpack(PAGE, value)
  page.url = string.sub(value, rest)
  return page
end

local function load_page(number, digest)
  local value = call("HGET", key(number, "pages"), digest)
  return value and read_page(value)
end

local function page_value(page)
  return struct.pack(PAGE, page.phase, page.failures, page.receives, page.fence, page.depth, page.place,
    page.found_at, page.holder, page.parent, #page.gate, page.gate, #page.reason, page.reason) .. page.url
end

local function save_page(number, digest, page)
  call("HSET", key(number, "pages"), digest, page_value(page))
end

---------------------------------------------------------------- lanes

-- The lane's place among the crawl's lanes, after its pending pages changed.
local function refresh(number, gate)
  local open, waiting = key(number, "open"), key(number, "waiting")
  local best = call("ZRANGE", key(number, "queue:" .. gate), 0, 0, "WITHSCORES")
  if not best[1] then
    call("ZREM", open, gate)
    call("ZREM", waiting, gate)
  elseif not call("ZSCORE", waiting, gate) then
    local served = call("HGET", key(number, "hosts"), gate) or 0
    call("ZADD", open, math.floor(best[2] / RANK) * RANK + served, gate)
  end
end

local function refresh_all(number, gates)
  for gate in pairs(gates) do
    refresh(number, gate)
  end
end

-- Queue a page, whatever it was before. The caller refreshes the lane.
local function queue(number, digest, page)
  page.phase, page.holder = PENDING, NOBODY
  save_page(number, digest, page)
  local place = page.receives > 0 and page.place - RETURNED or page.place
  call("ZADD", key(number, "queue:" .. page.gate), place, digest)
end

---------------------------------------------------------------- ended pages of a crawl with a filter

-- A page that is done or skipped leaves its record for the filter, in one step, so that it is always in one of both.
-- But not before the page that added it is done or skipped too: until then that one may come again, and the links it
-- adds again must be known as its own. Nor does its URL leave before the pages that it added, whose leases tell it.

local function ended(page)
  return page.phase == DONE or page.phase == SKIPPED
end

-- From the record to the filter; false when the filter takes no more (its server bounds it): then the record stays.
local function forget(number, digest, url)
  local reply = redis.pcall("BF.INSERT", key(number, "filter"), "NOCREATE", "ITEMS", digest)
  if type(reply[1]) ~= "number" then
    return false
  end
  if call("HEXISTS", key(number, "children"), digest) == 1 then
    call("HSET", key(number, "parents"), digest, url)
  end
  call("HDEL", key(number, "pages"), digest)
  call("HDEL", key(number, "failures"), digest)
  return true
end

-- Save a page that has ended, or forget it.
local function save_ended(number, digest, page)
  local parent = page.parent ~= SEED and load_page(number, page.parent)
  local waits = parent and not ended(parent)
  if waits then
    call("ZADD", key(number, "kept"), 0, page.parent .. digest)
  end
  if waits or not forget(number, digest, page.url) then
    save_page(number, digest, page)
  end
end

-- A page has ended: so may those that it added.
local function forget_kept(number, parent)
  local kept, from, to = key(number, "kept"), "[" .. parent, "[" .. parent .. string.rep("\255", 16)
  local members = call("ZRANGEBYLEX", kept, from, to)
  for _, member in ipairs(members) do
    local digest = string.sub(member, 17)
    local page = load_page(number, digest)
    if page then
      forget(number, digest, page.url)
    end
  end
  if members[1] then
    call("ZREMRANGEBYLEX", kept, from, to)
  end
end

-- Pages were added by a parent (change > 0), or have ended.
local function count_children(number, parent, change)
  if parent ~= SEED and call("HINCRBY", key(number, "children"), parent, change) <= 0 then
    call("HDEL", key(number, "children"), parent)
    call("HDEL", key(number, "parents"), parent)
  end
end

---------------------------------------------------------------- gates

local function read_gate(gate)
  local value = call("HGET", BASE .. "gates", gate)
  if not value then
    return { next_at = 0, last_at = 0, interval = 0 }
  end
  local next_at, last_at, interval = struct.unpack(GATE, value)
  return { next_at = next_at, last_at = last_at, interval = interval }
end

local function save_gate(name, gate)
  call("HSET", BASE .. "gates", name, struct.pack(GATE, gate.next_at, gate.last_at, gate.interval))
end

-- Take a turn for a crawl with `interval` seconds between its own; return its start. Turns are not saved up: after a
-- pause the next one starts now. Without any interval the turn costs the others nothing.
local function take_turn(gate, interval)
  gate.last_at = math.max(NOW, gate.next_at)
  local step = math.max(interval, gate.interval)
  if step > 0 then
    gate.next_at = gate.last_at + step
  end
  return gate.last_at
end

---------------------------------------------------------------- sums

-- Add to a crawl's sums what the same call changed in its pages.
local function add_up(number, changes)
  local crawl = key(number, "crawl")
  for sum, change in pairs(changes) do
    if change ~= 0 then
      call("HINCRBY", crawl, sum, change)
    end
  end
  call("HSET", crawl, "updated_at", exact(NOW))
  local left = call("HMGET", crawl, "pending", "leased")
  call(left[1] + left[2] > 0 and "SADD" or "SREM", BASE .. "active", number)
end
