"""SQL over merged files: the saved queries, the command, and what a query may not do."""
