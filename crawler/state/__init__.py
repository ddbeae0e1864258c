"""Where a crawl's state lives: the port, its backends, and the table that picks one by address."""
