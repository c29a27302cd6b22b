import type { LedgerDriver } from '@leasehold/core';
import { afterAll, describe, expect, test } from 'vitest';
import { closeServers } from './aws-stores.ts';
import { FAULT_NAMES } from './fault-kinds.ts';
import { failed, runMatrix, type Cell } from './matrix.ts';
import { matrixText } from './matrix-report.ts';
import { unpleasant } from './unpleasant.ts';

/** A ledger that compares no versions when an owner writes: whoever once held the lease goes on writing. */
function acceptsAnyVersion(inner: LedgerDriver): LedgerDriver {
  return {
    ...inner,
    async put(next, lease, expect_, signal) {
      const outcome = await inner.put(next, lease, expect_, signal);
      if (outcome.ok || !outcome.current || !('lease' in expect_) || expect_.lease !== 'live') return outcome;
      const { version } = outcome.current;
      return inner.put({ ...next, version: version + 1 }, lease, { version, lease: 'any' }, signal);
    },
  };
}

afterAll(closeServers);

describe('every driver call of a task x every fault', () => {
  test('memory, in full: another worker ends it, nothing happens twice, nothing is lost', async () => {
    const matrix = await runMatrix({ driver: 'memory' });
    expect(failed(matrix), matrixText(matrix)).toEqual([]);
    expect(matrix.holes).toEqual([]);
    expect(matrix.size).toBe(matrix.calls.length * FAULT_NAMES.length);
    expect(matrix.size).toBeGreaterThanOrEqual(300);
    expect(matrix.results).toHaveLength(matrix.size);
    expect(new Set(matrix.calls.map(({ stage }) => stage))).toEqual(
      new Set(['unclaimed', 'preflight', 'external_call', 'commit', 'verify', 'settled']),
    );
  });

  test.each([
    ['sqlite', 23],
    ['sqs', 67],
    ['sqs-fifo', 67],
    ['dynamodb', 67],
  ])('%s, one cell in %d: the same', async (driver, nth) => {
    const matrix = await runMatrix({ driver, pick: (_cell, index) => index % nth === 0 });
    expect(failed(matrix), matrixText(matrix)).toEqual([]);
    expect(matrix.holes).toEqual([]);
    expect(matrix.size).toBeGreaterThanOrEqual(300);
    expect(new Set(matrix.planned.map(({ fault }) => fault))).toEqual(new Set(FAULT_NAMES));
  });

  test('a ledger that accepts any version is found, and the report says how to repeat it', async () => {
    const late = ({ path, method, fault }: Cell): boolean =>
      path === 'one-effect' && method === 'ledger.put' && fault === 'applied-late';
    const matrix = await runMatrix({ driver: 'memory', pick: late, weaken: acceptsAnyVersion });
    const [first] = failed(matrix);
    expect(first?.violations).not.toEqual([]);
    expect(matrixText(matrix)).toContain(`npm run matrix -- --driver memory --cell ${first?.id}`);
  });

  test('a cell that does not exist is a hole, not a success', async () => {
    const matrix = await runMatrix({ driver: 'memory', pick: ({ id }) => id === 'one-effect/ledger.put/99/cut' });
    expect(matrix.holes).toEqual(['no such cell']);
  });
});

describe('a worker that is cut off while its request is on its way', () => {
  test.each([
    ['memory', 'memory'],
    ['sqlite', 'sqlite'],
    ['memory', 'sqlite'],
    ['sqlite', 'memory'],
    ['sqs', 'dynamodb'],
    ['sqs-fifo', 'sqlite'],
  ])('%s broker and %s ledger: it cannot renew, settle or make a second effect', async (broker, ledger) => {
    const { checks, story } = await unpleasant({ broker, ledger });
    expect(checks.filter(({ holds }) => !holds)).toEqual([]);
    expect(story.map(({ what }) => what)).toContain('result_rejected');
  });

  test('with a ledger that accepts any version it can, and the checks say so', async () => {
    const { checks } = await unpleasant({ broker: 'memory', ledger: 'memory', weaken: acceptsAnyVersion });
    const broken = checks.filter(({ holds }) => !holds).map(({ claim }) => claim);
    expect(broken).toContain('W1 cannot renew');
    expect(broken).toContain('W1 cannot write the result');
  });
});
