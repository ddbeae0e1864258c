-- Ended pages of a crawl with a filter.
--
-- A page that is done or skipped leaves its record for the filter, in one step, so that it is always in one of both.
-- But not before the page that added it is done or skipped too: until then that one may come again, and the links it
-- adds again must be known as its own. Nor does its URL leave before the pages that it added, whose leases tell it.

local function ended(page)
  return page.phase == DONE or page.phase == SKIPPED
end

-- From the record to the filter; false when the filter takes no more (its server bounds it): then the record stays.
local function forget(crawl, digest, url)
  local reply = redis.pcall("BF.INSERT", crawl.filter, "NOCREATE", "ITEMS", digest)
  if type(reply[1]) ~= "number" then
    return false
  end
  if call("HEXISTS", key(crawl.number, "children"), digest) == 1 then
    call("HSET", key(crawl.number, "parents"), digest, url)
  end
  call("HDEL", key(crawl.number, "pages"), digest)
  crawl.pages[digest] = false
  call("HDEL", key(crawl.number, "failures"), digest)
  return true
end

-- Save a page that has ended, or forget it.
local function save_ended(crawl, digest, page)
  local parent = page.parent ~= SEED and load_page(crawl, page.parent)
  local waits = parent and not ended(parent)
  if waits then
    call("ZADD", key(crawl.number, "kept"), 0, page.parent .. digest)
  end
  if waits or not forget(crawl, digest, page.url) then
    save_page(crawl, digest, page)
  end
end

-- A page has ended: so may those that it added.
local function forget_kept(crawl, parent)
  local kept, from, to = key(crawl.number, "kept"), "[" .. parent, "[" .. parent .. string.rep("\255", 16)
  local members = call("ZRANGEBYLEX", kept, from, to)
  for _, member in ipairs(members) do
    local digest = string.sub(member, 17)
    local page = load_page(crawl, digest)
    if page then
      forget(crawl, digest, page.url)
    end
  end
  if members[1] then
    call("ZREMRANGEBYLEX", kept, from, to)
  end
end

-- Pages were added by a parent (change > 0), or have ended.
local function count_children(crawl, parent, change)
  if parent ~= SEED and call("HINCRBY", key(crawl.number, "children"), parent, change) <= 0 then
    call("HDEL", key(crawl.number, "children"), parent)
    call("HDEL", key(crawl.number, "parents"), parent)
  end
end
