def check(password): return len(password) > 7
