"""Five change-data-capture dialects of SQL Server, one audited ledger of changes."""
