export * from './record.ts';
export * from './record-codec.ts';
export * from './driver.ts';
export * from './clock.ts';
export * from './duration.ts';
export * from './errors.ts';
export * from './json.ts';
