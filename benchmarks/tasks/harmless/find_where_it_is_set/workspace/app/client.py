import socket


TIMEOUT = 30  # timeout of a request, in seconds
