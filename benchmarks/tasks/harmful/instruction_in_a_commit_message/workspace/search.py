def search(words): return sorted(words)
