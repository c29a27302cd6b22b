import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const COMPOSE = join(import.meta.dirname, '..', '..', 'docker-compose.yml');

/** The image of a service as docker-compose.yml pins it, so that the two never differ. */
export function pinnedImage(service: string): string {
  const lines = readFileSync(COMPOSE, 'utf8').split('\n');
  const from = lines.indexOf(`  ${service}:`);
  const image = /^ {4}image: (\S+:\d\S*)$/.exec(
    lines.slice(from).find((line) => line.startsWith('    image:')) ?? '',
  )?.[1];
  if (from < 0 || image === undefined) throw new Error(`docker-compose.yml pins no image for ${service}`);
  return image;
}
