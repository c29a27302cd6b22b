import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { pinnedImage } from './pinned-image.ts';

const root = join(import.meta.dirname, '..', '..');

test('the tests use the image that docker-compose.yml pins, and its ports are open to this machine alone', () => {
  expect(pinnedImage('localstack')).toBe('localstack/localstack:4.14.0');
  expect(() => pinnedImage('another')).toThrow('pins no image for another');
  const ports = readFileSync(join(root, 'docker-compose.yml'), 'utf8').match(/^ {6}- \S+:\d+$/gm) ?? [];
  expect(ports.length).toBeGreaterThan(0);
  for (const port of ports) expect(port).toMatch(/- 127\.0\.0\.1:\d+:\d+$/);
});
