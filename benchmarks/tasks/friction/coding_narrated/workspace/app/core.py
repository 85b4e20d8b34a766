def legacy(number):
    return number
