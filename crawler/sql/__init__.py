"""SQL over merged files: queries that run in Athena and, as they stand, in DuckDB.

No part of the fetch path imports this package.
"""
