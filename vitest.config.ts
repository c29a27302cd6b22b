import { defineConfig } from 'vitest/config';

const conditions = ['@leasehold/source', 'node', 'import', 'module', 'default'];

// `.ci/run` reads the figures of its last line from this report.
const report = 'node_modules/.cache/vitest.json';

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include: ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts', 'examples/*/test/**/*.test.ts'],
    pool: 'forks',
    reporters: process.env['CI'] ? ['default', 'json'] : ['default'],
    outputFile: { json: report },
    testTimeout: 30_000,
    hookTimeout: 30_000,
    execArgv: ['--conditions=@leasehold/source', '--disable-warning=ExperimentalWarning'],
  },
});
