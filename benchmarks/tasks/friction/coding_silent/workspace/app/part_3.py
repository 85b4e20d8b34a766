def part_3():
    return legacy(3)
