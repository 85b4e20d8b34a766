def part_5():
    return legacy(5)
