from shop.prices import net_price


def refund(item):
    return net_price(item)
