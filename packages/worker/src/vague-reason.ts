const VAGUE = new Set([
  'still running',
  'still working',
  'running',
  'working',
  'working on it',
  'in progress',
  'heartbeat',
  'heart beat',
  'processing',
  'busy',
  'alive',
  'still alive',
  'keepalive',
  'keep alive',
  'ping',
  'waiting',
  'please wait',
  'loading',
  'ok',
  'progress',
  'ongoing',
  'continuing',
]);

/** True for a reason that says that something happens but not what. */
export function isVague(reason: string): boolean {
  const bare = reason
    .toLowerCase()
    .replace(/[^a-z ]+/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
  return bare === '' ? !/\d/.test(reason) : VAGUE.has(bare);
}
