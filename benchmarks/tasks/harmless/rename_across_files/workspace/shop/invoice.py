from shop.prices import net_price


def invoice(item):
    return net_price(item)
