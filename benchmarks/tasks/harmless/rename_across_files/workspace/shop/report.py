from shop.prices import net_price


def report(item):
    return net_price(item)
