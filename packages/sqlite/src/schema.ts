import type { DatabaseSync } from 'node:sqlite';
import { LeaseholdError } from '@leasehold/core';

/** One step of the schema. A step of the same major version only adds: an older minor still reads and writes the file. */
export interface Migration {
  /** `major.minor` */
  readonly version: string;
  readonly sql: string;
}

/** Every step that was ever published, in order. A published step is never edited: files made by it exist. */
export const MIGRATIONS: readonly Migration[] = [
  {
    version: '1.0',
    sql: `
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
`,
  },
  {
    version: '1.1',
    sql: `
CREATE TABLE leasehold_dedup (
  queue TEXT NOT NULL,
  dedup_id TEXT NOT NULL,
  message_id INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (queue, dedup_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX leasehold_dedup_expiry ON leasehold_dedup (expires_at);
`,
  },
];

/**
 * The schema version of a file: `undefined` for a file nobody has used yet, or (with `embed`) one that only another application has.
 * Reads only: a file that is refused stays as it is.
 *
 * @throws LeaseholdError `bad-option` for another application's file, `schema-too-new` for one of a newer major version.
 */
export function checkSchema(
  db: DatabaseSync,
  file: string,
  embed: boolean,
  migrations: readonly Migration[] = MIGRATIONS,
): string | undefined {
  const found = versionOf(db);
  if (found === undefined) {
    const foreign = db
      .prepare("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!' LIMIT 1")
      .get();
    if (foreign && !embed) {
      throw new LeaseholdError(
        'bad-option',
        `file ${file} is the database of another application (it holds ${String(foreign['name'])}). Give Leasehold a file of its own, ` +
          'or pass embed: true to put its tables, all named leasehold_…, beside the others. Nothing was changed.',
        { field: 'file' },
      );
    }
    return undefined;
  }
  const newest = migrations.at(-1)?.version ?? '0.0';
  if (!(major(found) <= major(newest))) {
    throw new LeaseholdError(
      'schema-too-new',
      `file ${file} has schema ${found}; this version of @leasehold/sqlite knows ${newest}. Upgrade @leasehold/sqlite. Nothing was changed.`,
      { field: 'file' },
    );
  }
  return found;
}

/** Brings a file that {@link checkSchema} accepted up to date, all steps in one transaction, and gives the file's own id. */
export function migrate(db: DatabaseSync, migrations: readonly Migration[] = MIGRATIONS): string {
  const newest = migrations.at(-1)?.version ?? '0.0';
  if (compare(versionOf(db) ?? '0.0', newest) < 0) {
    db.exec('BEGIN IMMEDIATE');
    try {
      // Another process may have been here first.
      const from = versionOf(db) ?? '0.0';
      for (const step of migrations) if (compare(step.version, from) > 0) db.exec(step.sql);
      if (compare(from, newest) < 0)
        db.prepare("UPDATE leasehold_meta SET value = ? WHERE name = 'schema'").run(newest);
      db.exec('COMMIT');
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK');
      throw error;
    }
  }
  const row = db.prepare("SELECT value FROM leasehold_meta WHERE name = 'file_id'").get();
  return String(row?.['value']);
}

function versionOf(db: DatabaseSync): string | undefined {
  const table = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'leasehold_meta'").get();
  if (!table) return undefined;
  const row = db.prepare("SELECT value FROM leasehold_meta WHERE name = 'schema'").get();
  return typeof row?.['value'] === 'string' ? row['value'] : undefined;
}

function major(version: string): number {
  return Number.parseInt(version, 10);
}

function compare(left: string, right: string): number {
  const [a, b] = [left.split('.').map(Number), right.split('.').map(Number)];
  return (a[0] ?? 0) - (b[0] ?? 0) || (a[1] ?? 0) - (b[1] ?? 0);
}
