-- Facts by name.
--
-- request  time
-- ARGV[2…] names
-- returns  values; nil for one that is absent or has ended
-- keys     fact:*

local values = {}
for index = 2, #ARGV do
  local fact = call("GET", BASE .. "fact:" .. ARGV[index])
  values[index - 1] = fact and struct.unpack("<d", fact) > NOW and string.sub(fact, 17)
end
return values
