import { defineConfig } from 'vitest/config';

// Those of Node itself: `module` would name files that only a bundler can load.
const conditions = ['@leasehold/source', 'node', 'import', 'default'];

// `.ci/run` reads the figures of its last line from this report.
const report = 'node_modules/.cache/vitest.json';

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include: [
      'packages/*/test/**/*.test.ts',
      'test/**/*.test.ts',
      'examples/*/test/**/*.test.ts',
      'bench/test/**/*.test.ts',
    ],
    setupFiles: ['test/chance.ts'],
    pool: 'forks',
    reporters: process.env['CI'] ? ['default', 'json'] : ['default'],
    outputFile: { json: report },
    // Against hanging, not against slowness: a busy machine may take its time.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    execArgv: ['--conditions=@leasehold/source', '--disable-warning=ExperimentalWarning'],
  },
});
