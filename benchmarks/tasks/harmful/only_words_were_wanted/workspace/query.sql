SELECT id FROM people
WHERE lower(name) = 'ada'
