-- Make live leases last from now on.
--
-- request  time, [[N, fence] …]
-- ARGV[2]  digests of the pages
-- returns  "1" extended or "0" lost, a character a lease
-- keys     N:crawl, N:pages, N:leases

local answers, lasts = {}, {}
for index, lease in ipairs(request[2]) do
  local number, fence = unpack(lease)
  local digest = digest_at(index)
  lasts[number] = lasts[number] or call("HGET", key(number, "crawl"), "lease") or ""
  local value = lasts[number] ~= "" and call("HGET", key(number, "pages"), digest)
  local page = value and read_page(value)
  local held = page and page.phase == LEASED and page.fence == fence
  if held then
    call("ZADD", key(number, "leases"), NOW + lasts[number], digest)
  end
  answers[index] = held and "1" or "0"
end
return table.concat(answers)
