-- Logins with what they need and nothing more. May be run again; run it after cdc.sql.
-- $(...) are variables of sqlcmd's environment. Made by scripts/compose_secrets.py, they hold no quotes.
USE master;
GO
IF SUSER_ID(N'changeledger_reader') IS NULL
    CREATE LOGIN changeledger_reader WITH PASSWORD = '$(SHOP_READER_PASSWORD)';
IF SUSER_ID(N'debezium') IS NULL
    CREATE LOGIN debezium WITH PASSWORD = '$(DEBEZIUM_PASSWORD)';
GO
USE shop;
GO
IF USER_ID(N'changeledger_reader') IS NULL
    CREATE USER changeledger_reader FOR LOGIN changeledger_reader;
IF USER_ID(N'debezium') IS NULL
    CREATE USER debezium FOR LOGIN debezium;
GO
-- A feed of the dialect sqlserver_cdc: the metadata of the capture, the change tables, and which schema and
-- table each of them captures (names only: VIEW DEFINITION shows no rows of the source).
GRANT SELECT ON OBJECT::cdc.change_tables TO changeledger_reader;
GRANT SELECT ON OBJECT::cdc.captured_columns TO changeledger_reader;
GRANT SELECT ON OBJECT::cdc.index_columns TO changeledger_reader;
GRANT SELECT ON OBJECT::cdc.lsn_time_mapping TO changeledger_reader;
GRANT SELECT ON OBJECT::cdc.dbo_customers_CT TO changeledger_reader;
GRANT SELECT ON OBJECT::cdc.sales_orders_CT TO changeledger_reader;
GRANT SELECT ON OBJECT::cdc.dbo_parts_CT TO changeledger_reader;
GRANT SELECT ON OBJECT::cdc.dbo_wide_CT TO changeledger_reader;
GRANT VIEW DEFINITION ON SCHEMA::dbo TO changeledger_reader;
GRANT VIEW DEFINITION ON SCHEMA::sales TO changeledger_reader;
-- Their rows: for the daily proof that what is published is what they hold, and for nothing else.
GRANT SELECT ON OBJECT::dbo.customers TO changeledger_reader;
GRANT SELECT ON OBJECT::sales.orders TO changeledger_reader;
GRANT SELECT ON OBJECT::dbo.parts TO changeledger_reader;
GRANT SELECT ON OBJECT::dbo.wide TO changeledger_reader;
GO
-- Debezium's connector: the same tables by its own queries and functions, and the rows for its snapshot.
ALTER ROLE cdc_gate ADD MEMBER debezium;
GRANT SELECT ON SCHEMA::cdc TO debezium;
GRANT SELECT ON OBJECT::dbo.customers TO debezium;
GRANT SELECT ON OBJECT::sales.orders TO debezium;
GRANT SELECT ON OBJECT::dbo.parts TO debezium;
GRANT SELECT ON OBJECT::dbo.wide TO debezium;
GO
