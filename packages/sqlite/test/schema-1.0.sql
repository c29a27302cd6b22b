-- A file as schema 1.0 left it, with one row of every kind. Never edited: such files exist.
CREATE TABLE leasehold_meta (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO leasehold_meta VALUES ('schema', '0.0'), ('file_id', lower(hex(randomblob(4))));

CREATE TABLE leasehold_boot (
  boot INTEGER PRIMARY KEY,
  boot_id TEXT UNIQUE,
  started_at INTEGER NOT NULL,
  offset_ms INTEGER NOT NULL,
  high_ms INTEGER NOT NULL
) STRICT;

-- visible_at: when it may be handed out next; while it is held, when that ends; NULL behind another of its group.
-- boot: the boot in which it was handed out, while it is held. receipt: grows with every delivery and is never set back.
CREATE TABLE leasehold_message (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  queue TEXT NOT NULL,
  visible_at INTEGER,
  boot INTEGER,
  receipt INTEGER NOT NULL DEFAULT 0,
  deliveries INTEGER NOT NULL DEFAULT 0,
  group_id TEXT,
  not_before INTEGER NOT NULL,
  sent_at INTEGER NOT NULL,
  dead_at INTEGER,
  reason TEXT,
  description TEXT,
  attributes TEXT NOT NULL,
  body BLOB
) STRICT;
CREATE INDEX leasehold_message_due ON leasehold_message (queue, visible_at);
CREATE INDEX leasehold_message_held ON leasehold_message (boot) WHERE boot IS NOT NULL;
CREATE INDEX leasehold_message_group ON leasehold_message (queue, group_id) WHERE group_id IS NOT NULL;

-- Bodies too long to be copied with every change of their row.
CREATE TABLE leasehold_body (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TRIGGER leasehold_message_gone AFTER DELETE ON leasehold_message WHEN OLD.body IS NULL
BEGIN
  DELETE FROM leasehold_body WHERE id = OLD.id;
END;

-- document: the record as JSON under its wire names, without lease_expires_at, which only the column holds.
CREATE TABLE leasehold_task (
  task_id TEXT PRIMARY KEY NOT NULL,
  version INTEGER NOT NULL,
  state TEXT NOT NULL,
  lease_expires_at INTEGER,
  boot INTEGER,
  updated_at INTEGER NOT NULL,
  expires_at INTEGER,
  stage TEXT NOT NULL,
  task_type TEXT NOT NULL,
  agent_run_id TEXT,
  error_class TEXT,
  document TEXT NOT NULL
) STRICT;
CREATE INDEX leasehold_task_state ON leasehold_task (state, updated_at, task_id);
CREATE INDEX leasehold_task_run ON leasehold_task (agent_run_id) WHERE agent_run_id IS NOT NULL;
CREATE INDEX leasehold_task_expiry ON leasehold_task (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE leasehold_guard_scope (scope TEXT PRIMARY KEY NOT NULL, token INTEGER NOT NULL, expires_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX leasehold_guard_scope_expiry ON leasehold_guard_scope (expires_at);
-- hold: its bearer's word; held_until and boot: while it is in progress; status, headers, body, expires_at: once it is done.
CREATE TABLE leasehold_guard_key (
  id INTEGER PRIMARY KEY,
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  retention_ms INTEGER NOT NULL,
  hold TEXT,
  held_until INTEGER,
  boot INTEGER,
  status INTEGER,
  headers TEXT,
  body BLOB,
  expires_at INTEGER,
  UNIQUE (scope, key)
) STRICT;
CREATE INDEX leasehold_guard_key_expiry ON leasehold_guard_key (expires_at) WHERE expires_at IS NOT NULL;

UPDATE leasehold_meta SET value = '1.0' WHERE name = 'schema';
UPDATE leasehold_meta SET value = 'c0ffee00' WHERE name = 'file_id';
INSERT INTO leasehold_boot VALUES (1, 'boot-0', 1700000000000, 1699999999000, 1700000000000);
INSERT INTO leasehold_message (id, queue, visible_at, not_before, sent_at, attributes, body)
  VALUES (7, 'default', 1700000000000, 1700000000000, 1700000000000, '{"note":"kept"}', x'6f6c64');
INSERT INTO leasehold_message (id, queue, visible_at, not_before, sent_at, attributes)
  VALUES (8, 'default', 1700000000001, 1700000000000, 1700000000000, '{}');
INSERT INTO leasehold_body VALUES (8, x'6c6f6e67');
INSERT INTO leasehold_task VALUES ('old task', 3, 'running', 1700000090000, 1, 1700000000000, NULL, 'commit', 'charge', 'run-1', NULL,
  '{"schema_version":"1.0","task_id":"old task","task_type":"charge","agent_run_id":"run-1","state":"running","stage":"commit","stage_entered_at":1700000000000,"renewal_count":0,"history":[],"fencing_token":2,"attempt":2,"failures":1,"idempotency_key":"k","effects":{},"version":3,"op_id":"o","created_at":1700000000000,"updated_at":1700000000000,"from_the_future":true}');
INSERT INTO leasehold_guard_scope VALUES ('scope', 5, 1800000000000);
INSERT INTO leasehold_guard_key (scope, key, request_hash, retention_ms, status, headers, body, expires_at)
  VALUES ('scope', 'key', 'hash', 1000, 201, '{"a":"b"}', x'6f6b', 1800000000000);
