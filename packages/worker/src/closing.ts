import { openEffects } from '@leasehold/core';
import type { Attempt } from './attempt.ts';
import { findForClosing } from './effect.ts';
import { readBack, readBackGuarded } from './read-back.ts';

/**
 * Reads back, under the new token, every effect that is still open. At a guarded receiver this seals the scope against the older call.
 * What the handler of this attempt did not reach and has no look endpoint stays in doubt, and so does what does not answer in time.
 */
export async function closeOpenEffects(attempt: Attempt): Promise<void> {
  const { host, port } = attempt;
  for (const name of openEffects(port.task.record)) {
    // Whoever has the task now closes it.
    if (port.task.lost) return;
    if (port.task.carriedFinding(name)) continue;
    const record = port.task.record.effects[name];
    if (!record) continue;
    const options = attempt.effects.get(name);
    await findForClosing(host, name, record, options, async (signal) => {
      if (options) return readBack(host, options, record.key, record, signal);
      if (record.lookUrl === undefined) return { state: 'unknown' };
      return readBackGuarded(host, { url: record.lookUrl }, record.key, signal);
    });
  }
}
