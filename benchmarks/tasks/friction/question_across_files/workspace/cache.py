class Cache:
    def invalidate(self):
        self.items = {}
