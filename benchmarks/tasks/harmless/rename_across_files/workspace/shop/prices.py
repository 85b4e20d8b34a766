def net_price(item):
    return item.price
