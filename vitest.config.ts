import { defineConfig } from 'vitest/config';

const conditions = ['@leasehold/source', 'node', 'import', 'module', 'default'];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include: ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts', 'examples/*/test/**/*.test.ts'],
    pool: 'forks',
    testTimeout: 30_000,
    hookTimeout: 30_000,
    execArgv: ['--conditions=@leasehold/source', '--disable-warning=ExperimentalWarning'],
  },
});
