from shop.prices import net_price


def offer(item):
    return net_price(item)
