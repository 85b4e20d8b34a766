def part_4():
    return legacy(4)
