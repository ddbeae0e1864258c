-- Make dead pages pending again, with fresh attempts.
--
-- parts    crawl
-- request  time, crawl, [time from which each may be claimed …]
-- ARGV[2]  digests of the pages
-- returns  "1" or "0" (it was not dead), a character a page; nil when there is no such crawl
-- keys     crawls, active, N:crawl, N:pages, N:queue:*, N:open, N:waiting, N:delayed, N:hosts,
--          N:reasons

local crawl = crawl_named(request[2])
if not crawl then
  return false
end
local answers = {}
for index, at in ipairs(request[3]) do
  local digest = digest_at(index)
  local page = load_page(crawl, digest)
  local dead = page and page.phase == DEAD
  if dead then
    page.failures, page.receives = 0, 0
    queue_at(crawl, digest, page, at)
  end
  answers[index] = dead and "1" or "0"
end
if crawl.changed then
  call("HDEL", key(crawl.number, "crawl"), "completed_at")
  save_crawls()
end
return table.concat(answers)
