"""One suite over every backend of `crawler.state.port.CrawlState`."""
