import { decide, isRefusal } from '@leasehold/core';
import type { TaskEvent, TaskRecord } from '@leasehold/core';
import type { Transition } from '../../packages/core/test/decide-walk.ts';
import {
  answer,
  askHuman,
  at,
  beginClose,
  cancel,
  checkpoint,
  claim,
  deadLetter,
  endClose,
  handOff,
  intend,
  LEASE_MS,
  raiseToken,
  release,
  renew,
  RETENTION_MS,
  settle,
  sweep,
} from '../../packages/core/test/task-events.ts';
import { taskRegister } from '../../packages/core/test/task-register.ts';

const verified = { effects: { create: { status: 'verified', externalId: 'x', externalStatus: 'open' } } } as const;
const absent = { effects: { create: { status: 'absent' } } } as const;
const progress = { progress: { stage: 'external_call', reason: 'page 3' } } as const;
const toCancelled = { closing: { to: 'cancelled', reason: 'on request', errorClass: 'cancelled' } } as const;
const second = { opId: 'second', owner: 'svc/b#2' } as const;
const opened = [claim({ deadlineMs: 600_000 }), checkpoint(), intend('create'), cancel()];
/** On its way to being cancelled, and given back with a delay. */
const cancelling = [...opened, beginClose(toCancelled), release({ token: 2, carry: absent, delayMs: 1_000 })];
/** The same, on its way to being dead-lettered. */
const failing = [...opened, beginClose(), release({ token: 2, carry: absent, delayMs: 1_000 })];
const delayed = 1_001;
const lapsed = LEASE_MS + 1;

/** Histories of one task that together make every kind of transition and touch every field each can touch. A number lets that time pass. */
const scripts: readonly (readonly (TaskEvent | number)[])[] = [
  [
    claim({ agentRunId: 'run-1', traceId: 'trace', deadlineMs: 1 }),
    renew({ carry: progress }),
    raiseToken(),
    handOff({ token: 8, progressed: false }),
  ],
  [
    ...opened,
    beginClose(toCancelled),
    settle({
      token: 2,
      carry: verified,
      result: { inline: 1 },
      next: [{ taskId: 't', type: 'mail', idempotencyKey: 't', input: 1 }],
    }),
    { type: 'follow-ups-sent', opId: 'sent' },
  ],
  [
    ...opened,
    beginClose(),
    deadLetter({ token: 2, carry: absent }),
    { type: 'dead-letter-sent', opId: 'sent' },
    claim({ ...second, carriedToken: 2, deadlineMs: 1 }),
  ],
  [...opened, beginClose(toCancelled), endClose({ token: 2, carry: verified })],
  [...opened, beginClose(toCancelled), endClose({ token: 2, carry: absent })],
  [...opened, beginClose(), endClose({ token: 2, carry: absent }), { type: 'reopen', opId: 'reopen' }],
  [...opened, beginClose(), askHuman({ token: 2 }), answer({ approve: false }), claim({ ...second, carriedToken: 3 })],
  [
    claim({ deadlineMs: 600_000 }),
    release(),
    claim(),
    deadLetter({ token: 2 }),
    5,
    claim({ ...second, carriedToken: 2, deadlineMs: 1 }),
  ],
  [claim(), release(), claim(), deadLetter({ token: 2 }), { type: 'reopen', opId: 'reopen' }],
  [...cancelling, cancel()],
  [...cancelling, delayed, claim(second)],
  [...failing, sweep()],
  [...failing, delayed, claim(second)],
  [claim({ deadlineMs: 1 }), askHuman(), answer(), 2, claim(second)],
  [claim(), intend('create'), cancel(), askHuman({ carry: absent }), answer(), claim(second)],
  [claim(), intend('create'), cancel(), renew({ carry: absent }), lapsed, claim(second)],
  [
    claim(),
    intend('create'),
    beginClose(toCancelled),
    renew({ token: 2, carry: verified }),
    lapsed,
    claim({ ...second, deadlineMs: 1 }),
  ],
  [
    claim(),
    intend('create'),
    beginClose(toCancelled),
    release({ token: 2, carry: verified, delayMs: 1_000 }),
    delayed,
    claim({ ...second, deadlineMs: 1 }),
  ],
  [claim(), intend('create'), release(), claim({ ...second, attempts: 1 })],
  [claim(), intend('create'), lapsed, claim({ ...second, attempts: 1 })],
  [claim(), intend('create'), release(), cancel()],
  [claim(), intend('create'), askHuman(), cancel()],
  [claim(), intend('create'), askHuman({ parked: { omitted: "it is its consumer's own" } }), cancel()],
  [claim(), release({ failure: false, retentionMs: RETENTION_MS }), claim(second)],
  [claim(), askHuman(), answer(), claim(second)],
  [claim(), askHuman(), cancel()],
  [claim(), askHuman(), sweep()],
  [claim(), lapsed, claim({ ...second, attempts: 1 })],
  [claim(), lapsed, sweep()],
  [claim(), cancel()],
  [cancel()],
];

/** What the scripts make happen. */
export function* scripted(): Generator<Transition> {
  for (const script of scripts) {
    const register = taskRegister();
    let ms = 0;
    for (const [index, step] of script.entries()) {
      ms += typeof step === 'number' ? step : 1;
      if (typeof step === 'number') continue;
      const now = at(ms);
      const before = register.record;
      const event = { ...step, opId: `op-${index}` };
      const decision = decide(before, event, now);
      if (isRefusal(decision)) throw new Error(`${event.type}: ${decision.message}`);
      const after = register.put(decision, now).record as TaskRecord;
      yield { before, after, event, decision, now };
    }
  }
}
