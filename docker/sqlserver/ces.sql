-- Stream the tables of the example feeds to an event hub: change event streaming of SQL Server 2025.
-- As Microsoft's pages of 2026 have it: a preview; not on Linux; not for a database with change data capture;
-- from the transaction log of the full recovery model; without the rows that are there already; without
-- columns of the types xml, text, ntext, image, rowversion, sql_variant, json and vector.
-- After a failure half-way: EXEC sys.sp_disable_event_stream, then run it again.
USE shop;
GO
ALTER DATABASE shop SET RECOVERY FULL;
ALTER DATABASE SCOPED CONFIGURATION SET PREVIEW_FEATURES = ON;
GO
IF NOT EXISTS (SELECT * FROM sys.symmetric_keys WHERE name = N'##MS_DatabaseMasterKey##')
    CREATE MASTER KEY ENCRYPTION BY PASSWORD = '$(CES_MASTER_KEY_PASSWORD)';
GO
-- A shared access policy of the event hub with the right Send, and its key: over Kafka no SAS token will do.
IF NOT EXISTS (SELECT * FROM sys.database_scoped_credentials WHERE name = N'event_hub')
    CREATE DATABASE SCOPED CREDENTIAL event_hub WITH IDENTITY = '$(CES_POLICY)', SECRET = '$(CES_KEY)';
GO
-- A change of sp_configure is for the whole server: without it values above 64 KB are refused.
EXEC sys.sp_configure N'show advanced options', 1;
RECONFIGURE;
EXEC sys.sp_configure N'max text repl size', -1;
RECONFIGURE;
GO
IF EXISTS (SELECT * FROM sys.databases WHERE database_id = DB_ID() AND is_event_stream_enabled = 0)
BEGIN
    EXEC sys.sp_enable_event_stream;
    -- JSON: the reader knows no other encoding. One partition a table keeps the order of its changes.
    EXEC sys.sp_create_event_stream_group
        @stream_group_name = N'shop',
        @destination_type = N'AzureEventHubsApacheKafka',
        @destination_location = N'$(CES_NAMESPACE).servicebus.windows.net:9093/shop.changes',
        @destination_credential = event_hub,
        @partition_key_scheme = N'Table',
        @encoding = N'JSON';
    EXEC sys.sp_add_object_to_event_stream_group
        @stream_group_name = N'shop',
        @object_name = N'dbo.customers',
        @include_all_columns = 1,
        @include_old_values = 1,
        @include_old_lob_values = 1;
    EXEC sys.sp_add_object_to_event_stream_group
        @stream_group_name = N'shop',
        @object_name = N'sales.orders',
        @include_all_columns = 1,
        @include_old_values = 1,
        @include_old_lob_values = 1;
    EXEC sys.sp_add_object_to_event_stream_group
        @stream_group_name = N'shop',
        @object_name = N'dbo.parts',
        @include_all_columns = 1,
        @include_old_values = 1,
        @include_old_lob_values = 1;
    EXEC sys.sp_add_object_to_event_stream_group
        @stream_group_name = N'shop',
        @object_name = N'dbo.wide',
        @include_all_columns = 1,
        @include_old_values = 1,
        @include_old_lob_values = 1;
END;
GO
