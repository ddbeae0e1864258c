-- End leases that are still held.
--
-- parts    crawl, filter
-- request  time, [[N, fence, phase, at, reason, error, bytes, whether an attempt failed, again] …], failures kept;
--          phase 5 (delayed) says "again at"
-- ARGV[2]  digests of the pages
-- returns  "1" settled or "0" lost, a character a lease
-- keys     active, N:crawl, N:pages, N:failures, N:queue:*, N:open, N:waiting, N:leases, N:delayed, N:hosts, N:filter,
--          N:kept, N:children, N:parents, N:reasons
--
-- A lease that expired while no worker claimed is still its holder's. The next claim of anyone ends it.

local HISTORY = request[3]
local answers, settled = {}, {}

local function held(crawl, digest, fence)
  local page = load_page(crawl, digest)
  return page and page.phase == LEASED and page.fence == fence and page
end

local function note_failure(number, digest, reason, error)
  local failures = key(number, "failures")
  local earlier = call("HGET", failures, digest)
  local history = earlier and cmsgpack.unpack(earlier) or {}
  history[#history + 1] = { NOW, reason, error }
  if #history > HISTORY then
    table.remove(history, 1)
  end
  call("HSET", failures, digest, cmsgpack.pack(history))
end

for index, ending in ipairs(request[2]) do
  local number, fence, phase, at, reason, error, size, failed, again = unpack(ending)
  local digest = digest_at(index)
  local crawl = crawl_of(number)
  local page = crawl and held(crawl, digest, fence)
  answers[index] = page and "1" or "0"
  if page then
    if failed then
      page.failures = math.min(page.failures + 1, MOST)
      note_failure(number, digest, reason, error)
    end
    page.holder, page.receives = NOBODY, again and 1 or 0
    if phase == DELAYED then
      queue_at(crawl, digest, page, at)
    else
      move(crawl, page, phase, reason)
      if crawl.filter and ended(page) then
        save_ended(crawl, digest, page)
        forget_kept(crawl, digest)
        count_children(crawl, page.parent, -1)
      else
        save_page(crawl, digest, page)
      end
    end
    crawl.sums.bytes = crawl.sums.bytes + size
    settled[number] = settled[number] or {}
    table.insert(settled[number], digest)
  end
end
save_crawls()
for number, digests in pairs(settled) do
  call_all("ZREM", key(number, "leases"), digests)
end
return table.concat(answers)
