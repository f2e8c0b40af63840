-- Switch on change data capture for the tables of the example feeds. May be run again.
-- SQL Server Agent must run: its capture job reads the log, its clean-up job removes old changes.
USE shop;
GO
IF EXISTS (SELECT * FROM sys.databases WHERE database_id = DB_ID() AND is_cdc_enabled = 0)
    EXEC sys.sp_cdc_enable_db;
GO
-- A captured table refuses larger values than this, and the default is 64 KB. -1 is no limit.
EXEC sys.sp_configure N'show advanced options', 1;
RECONFIGURE;
EXEC sys.sp_configure N'max text repl size', -1;
RECONFIGURE;
GO
-- The members of the gating role may call the functions on the change tables; sp_cdc_enable_table makes it.
IF NOT EXISTS (SELECT * FROM cdc.change_tables WHERE capture_instance = N'dbo_customers')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'dbo',
        @source_name = N'customers',
        @capture_instance = N'dbo_customers',
        @role_name = N'cdc_gate',
        @supports_net_changes = 0;
GO
IF NOT EXISTS (SELECT * FROM cdc.change_tables WHERE capture_instance = N'sales_orders')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'sales',
        @source_name = N'orders',
        @capture_instance = N'sales_orders',
        @role_name = N'cdc_gate',
        @supports_net_changes = 0;
GO
IF NOT EXISTS (SELECT * FROM cdc.change_tables WHERE capture_instance = N'dbo_parts')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'dbo',
        @source_name = N'parts',
        @capture_instance = N'dbo_parts',
        @role_name = N'cdc_gate',
        @supports_net_changes = 0;
GO
IF NOT EXISTS (SELECT * FROM cdc.change_tables WHERE capture_instance = N'dbo_wide')
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'dbo',
        @source_name = N'wide',
        @capture_instance = N'dbo_wide',
        @role_name = N'cdc_gate',
        @supports_net_changes = 0;
GO
-- Keep changes for 7 days (in minutes): longer than a feed may stand still. The default is 3 days.
EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 10080;
GO
