def part_1():
    return legacy(1)
