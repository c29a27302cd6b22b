import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

// Those of Node itself: `module` would name files that only a bundler can load.
const conditions = ['@leasehold/source', 'node', 'import', 'default'];

export default defineConfig({
  root: join(import.meta.dirname, '..', '..'),
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include: ['test/peers/*.peers.ts'],
    pool: 'forks',
    // The cases wait far more than they work, but too many at once would keep a server from answering in time.
    maxConcurrency: 26,
    // In real time a busy machine can be late for a lease of two seconds. The same cases run without second tries where time is moved by hand.
    retry: 2,
    reporters: ['default', 'json'],
    outputFile: { json: 'node_modules/.cache/vitest-peers.json' },
    testTimeout: 120_000,
    hookTimeout: 120_000,
    execArgv: ['--conditions=@leasehold/source', '--disable-warning=ExperimentalWarning'],
  },
});
