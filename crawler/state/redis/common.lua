-- Put before every script of this folder: names of keys, the page as a string. The parts that a script names in its
-- head (crawl.lua, filter.lua, gate.lua) come behind it.
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
--   gates             hash    gate -> its turns, what holds it, its host's health (GATE)
--   flights:GATE      zset    requests that occupy the gate by the time until which they do; expires after the last
--   fact:NAME         string  end, nonce, value; expires some time after its end
--   workers           hash    worker -> MessagePack [at, rate, held]
-- Keys of the crawl with number N
--   N:crawl           hash    the record, the settings that scripts need, the sums (SUMS)
--   N:reasons         hash    phase and reason -> how many pages were skipped, or are dead, for it
--   N:pages           hash    digest -> page (PAGE): the visited set, or what of it is not in the filter
--   N:parents         hash    digest -> URL of parents that have no record
--   N:failures        hash    digest -> MessagePack [[time, reason, error] …], the latest last
--   N:scope           set     sites that seeds brought
--   N:hosts           hash    gate -> number of its lane's latest lease, by which hosts take turns; its sums (LANE)
--   N:queue:GATE      zset    the lane of a gate: its pending pages by place
--   N:open            zset    gates of lanes to claim from, by rank of the lane's best page and latest lease
--   N:waiting         zset    gates of lanes that are closed, by a time before which they surely are
--   N:leases          zset    leased pages by the end of the lease
--   N:delayed         zset    delayed pages by the time they are due
--   with `dedup` bloom also
--   N:filter          module  Bloom filter of the pages that have no record any more
--   N:kept            zset    parent's digest and page's, of ended pages whose record waits for the parent's end
--   N:children        hash    digest -> how many of the pages that it added are not done or skipped
--
-- A lane with pending pages is in exactly one of `open` and `waiting`, an empty one in neither. What `waiting` says
-- may be too early, never too late: a claim that finds it too early corrects it, and whoever makes a lane open earlier
-- says so there (`look_again` for a gate, `amend` for a crawl's settings, `refresh_lanes` for a lane's own limit).
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

local function read_page(value)
  local phase, failures, receives, fence, depth, place, found_at, holder, parent, gate, reason, rest =
    struct.unpack(PAGE, value)
  return { phase = phase, failures = failures, receives = receives, fence = fence, depth = depth, place = place,
    found_at = found_at, holder = holder, parent = parent, gate = gate, reason = reason, url = string.sub(value, rest) }
end

local function page_value(page)
  return struct.pack(PAGE, page.phase, page.failures, page.receives, page.fence, page.depth, page.place,
    page.found_at, page.holder, page.parent, #page.gate, page.gate, #page.reason, page.reason) .. page.url
end

-- A command with any number of arguments (an even one), by parts that a call takes.
local function call_all(command, name, values)
  for first = 1, #values, 2 * AT_ONCE do
    call(command, name, unpack(values, first, math.min(first + 2 * AT_ONCE - 1, #values)))
  end
end
