def part_0():
    return legacy(0)
