-- Make dead pages pending again, with fresh attempts.
--
-- request  time, crawl, [time from which each may be claimed …]
-- ARGV[2]  digests of the pages
-- returns  "1" or "0" (it was not dead), a character a page; nil when there is no such crawl
-- keys     crawls, active, N:crawl, N:pages, N:queue:*, N:open, N:waiting, N:delayed, N:hosts

local number = number_of(request[2])
if not number then
  return false
end
local answers, lanes, revived = {}, {}, 0
for index, at in ipairs(request[3]) do
  local digest = digest_at(index)
  local page = load_page(number, digest)
  local dead = page and page.phase == DEAD
  if dead then
    page.failures, page.receives, page.reason = 0, 0, ""
    if at > NOW then
      page.phase = DELAYED
      save_page(number, digest, page)
      call("ZADD", key(number, "delayed"), at, digest)
    else
      queue(number, digest, page)
      lanes[page.gate] = true
    end
    revived = revived + 1
  end
  answers[index] = dead and "1" or "0"
end
if revived > 0 then
  refresh_all(number, lanes)
  call("HDEL", key(number, "crawl"), "completed_at")
  add_up(number, { dead = -revived, pending = revived })
end
return table.concat(answers)
