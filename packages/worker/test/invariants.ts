export * from '../src/testing/invariants.ts';
