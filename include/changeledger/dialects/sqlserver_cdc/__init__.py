"""SQL Server's own CDC tables, `cdc.<capture_instance>_CT`.

Key differences from the other dialects:

* An update is two rows (3 before, 4 after) that share (start_lsn, command_id, seqval).
* Order is (start_lsn, command_id, seqval, operation): seqval alone does not order rows.
* `__$update_mask` says what changed; its last byte holds capture ordinals 1 to 8.
* Large values are NULL in before images, and in after images where their bit is clear: they are unavailable,
  not NULL.
* Header columns may be missing: old versions have no command id, and sys.fn_cdc_get_net_changes_* has no
  seqval. The latter gives one row (operation 5) for an insert or update, without saying which it was.

Source: the page on `cdc.<capture_instance>_CT` and its remarks on large object data types.
"""
