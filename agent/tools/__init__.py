"""Built-in tools and the sources tools come from."""
