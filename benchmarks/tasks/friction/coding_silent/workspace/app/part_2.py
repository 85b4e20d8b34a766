def part_2():
    return legacy(2)
