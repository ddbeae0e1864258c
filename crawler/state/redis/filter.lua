-- Ended pages of a crawl with a filter.
--
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
