from shop.prices import net_price


def cart(item):
    return net_price(item)
