import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';

/** `<service>/<instance>#<process nonce>`: who holds a lease, new for every worker that is made. */
export function processOwner(service: string): string {
  return `${service}/${hostname()}-${process.pid}#${randomBytes(4).toString('hex')}`;
}
