-- Whether seeds have brought sites into a crawl's scope.
--
-- request  time, crawl, sites
-- returns  "1" or "0", a character a site; nil when there is no such crawl
-- keys     crawls, N:scope

local number = number_of(request[2])
if not number then
  return false
end
local answers = {}
for index, site in ipairs(request[3]) do
  answers[index] = call("SISMEMBER", key(number, "scope"), site)
end
return table.concat(answers)
