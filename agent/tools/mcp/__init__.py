"""The client of the Model Context Protocol: servers as a source of tools, believed in nothing."""
