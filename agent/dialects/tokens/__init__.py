"""Calls in the tokens that models were trained to write them in, where a server left them in the text."""
