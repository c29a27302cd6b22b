export * from '../src/testing/process.ts';
