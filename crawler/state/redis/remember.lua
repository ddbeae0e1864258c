-- Keep a fact.
--
-- request  time, seconds, whether only when there is none that lives
-- ARGV[2]  name      ARGV[3]  nonce of the call (8 bytes)      ARGV[4]  value
-- returns  1 kept, 0 not
-- keys     fact:*
--
-- The end in the value decides; the key's expiry only cleans up. The nonce tells a call that is sent again after its
-- answer was lost that the fact that lives is its own.

local SLACK = 60

local _, seconds, if_absent = unpack(request, 1, 3)
local fact, own = BASE .. "fact:" .. ARGV[2], ARGV[3]
if if_absent then
  local value = call("GET", fact)
  if value then
    local ends, nonce = struct.unpack("<dc8", value)
    if ends > NOW then
      return nonce == own and 1 or 0
    end
  end
end
call("SET", fact, struct.pack("<dc8", NOW + seconds, own) .. ARGV[4], "EX", math.ceil(seconds) + SLACK)
return 1
