-- Insert the pages that are absent and queue them.
--
-- parts    crawl, filter
-- request  time, crawl, its number as the caller remembers it (nil: anything goes), URLs of the parents,
--          [[index of the parent (0: a seed), priority, depth, gate, URL, reason to skip it or "", site] …]
-- ARGV[2]  digests of the pages      ARGV[3]  digests of the parents
-- returns  [N, an answer a page (n new, k known, a again), a parent's digest a page]; [N] alone when the number is
--          another one: nothing was done; nil when there is no such crawl
-- keys     crawls, active, N:crawl, N:pages, N:parents, N:scope, N:hosts, N:queue:*, N:open, N:waiting, N:filter,
--          N:kept, N:children, N:reasons
--
-- What is recorded is queued, in one step: a parent's redelivery needs no care. What is found in the filter ended
-- before this call, and so did the page that added it: whoever asks now is not that one.

local FORGOTTEN = string.rep("\255", 16)  -- in place of the parent that is not known any more

local crawl = crawl_named(request[2])
if not crawl then
  return false
end
local number = crawl.number
if request[3] and request[3] ~= number then
  return { number }
end
local urls, rows = request[4], request[5]
local pages, filter = key(number, "pages"), crawl.filter
local answers, parents, known, kept, added = {}, {}, {}, {}, {}

local function parent_digest(index)
  return index == 0 and SEED or string.sub(ARGV[3], 16 * index - 15, 16 * index)
end

-- The URL of a parent that is no page must be kept, for its children's leases.
local function keep_parent(index, parent)
  if index > 0 and not kept[index] then
    kept[index] = true
    if not crawl.pages[parent] and call("HEXISTS", pages, parent) == 0 then
      call("HSETNX", key(number, "parents"), parent, urls[index])
    end
  end
end

local function insert(digest, parent, row)
  local from, priority, depth, gate, url, skip = unpack(row)
  local page = {
    failures = 0, receives = 0, fence = 0, depth = depth, found_at = NOW, holder = NOBODY, parent = parent,
    place = priority * PRIORITY + math.min(depth, DEEPEST) * RANK + crawl.sums.discovered, gate = gate, url = url,
  }
  crawl.sums.discovered = crawl.sums.discovered + 1
  if skip == "" then
    keep_parent(from, parent)
    queue(crawl, digest, page)
    added[parent] = (added[parent] or 0) + 1
  else
    move(crawl, page, SKIPPED, skip)
    local save = filter and save_ended or save_page
    save(crawl, digest, page)
  end
end

-- For each page 1 if it is in the filter.
local function filtered(digests)
  return filter and call("BF.MEXISTS", filter, unpack(digests)) or {}
end

for first = 1, #rows, AT_ONCE do
  local digests = {}
  for index = first, math.min(first + AT_ONCE - 1, #rows) do
    digests[#digests + 1] = digest_at(index)
  end
  local values, gone = call("HMGET", pages, unpack(digests)), filtered(digests)
  for offset, digest in ipairs(digests) do
    local index = first + offset - 1
    local row = rows[index]
    local parent = parent_digest(row[1])
    if row[1] == 0 and row[7] ~= "" then
      call("SADD", key(number, "scope"), row[7])
    end
    local had = known[digest] or (values[offset] and read_page(values[offset]).parent)
      or (gone[offset] == 1 and FORGOTTEN)
    if not had then
      insert(digest, parent, row)
      answers[index] = "n"
    else
      answers[index] = had == parent and "a" or "k"
    end
    known[digest] = had or parent
    parents[index] = known[digest]
  end
end
if crawl.changed then
  if filter then
    for parent, count in pairs(added) do
      count_children(crawl, parent, count)
    end
  end
  call("HDEL", key(number, "crawl"), "completed_at")
  save_crawls()
end
return { number, table.concat(answers), table.concat(parents) }
