"""How a model says what it wants: picks the dialect that parses its responses and formats results for it; none of them
judges.
"""
