import math


def area(radius):
    if radius < 0:
        raise ValueError("a radius is not negative")
    return math.pi * radius**2
