import { hashJson } from '@leasehold/core';
import type { AnsweredRequest, DeclaredEffect } from '@leasehold/worker/testing';
import type { DoubleRule } from './doubles-file.ts';
import type { Fault } from './fault.ts';
import type { Observed, Rehearsal } from './rehearsal.ts';

/** One external call that is no read, over all runs. */
export interface CallVerdict {
  readonly call: string;
  readonly where: string;
  /** How often it took effect when nothing went wrong. */
  readonly usual: number;
  /** How often it took effect at the most. */
  readonly most: number;
  readonly twice: boolean;
  /** It was made again with another body or key, as something made up for each attempt is. */
  readonly changed: boolean;
  readonly repeatable: boolean;
  /** It bears no idempotency key, although its effect has one. */
  readonly keyless: boolean;
  /** What made it happen more often than usual. */
  readonly causes: readonly Fault[];
}

/** Something that cannot be read back, and what to do about it. */
interface Unreadable {
  readonly what: string;
  readonly problem: string;
  readonly remedy: string;
}

/** What a rehearsal showed. */
export interface Verdict {
  readonly verdict: 'clean' | 'made-twice' | 'stale-accepted';
  readonly calls: readonly CallVerdict[];
  readonly rejected: readonly { readonly fault: Fault; readonly worker: string; readonly token: number }[];
  readonly violations: readonly { readonly fault?: Fault; readonly what: string }[];
  readonly unreadable: readonly Unreadable[];
  /** Runs that did not settle. */
  readonly unsettled: readonly { readonly fault: Fault; readonly outcome: string; readonly why: string }[];
}

/** Judges the runs of a rehearsal. */
export function judge(rehearsal: Rehearsal, rules: readonly DoubleRule[]): Verdict {
  const { clean, faulty } = rehearsal;
  const calls = judgeCalls(clean, faulty, (request) =>
    rules.some((rule) => rule.repeatable && rule.fits(request.method, request.url)),
  );
  const violations = [clean, ...faulty].flatMap(({ fault, violations: own }) =>
    own.map((what) => ({ what, ...(fault && { fault }) })),
  );
  const twice = calls.some((call) => call.twice);
  return {
    verdict: violations.length > 0 ? 'stale-accepted' : twice ? 'made-twice' : 'clean',
    calls,
    rejected: faulty.flatMap(({ fault, rejected }) => (fault ? rejected.map((one) => ({ fault, ...one })) : [])),
    violations,
    unreadable: [
      ...rehearsal.effects.flatMap((effect) => unreadableEffect(effect, [clean, ...faulty])),
      ...calls.flatMap(unreadableCall),
    ],
    unsettled: faulty.flatMap(({ fault, outcome, why }) =>
      fault && outcome !== 'settled' ? [{ fault, outcome, why: why ?? '' }] : [],
    ),
  };
}

/** What two requests have in common that are the same call: one deed per effect, else per key, else per content. */
function deedOf(request: AnsweredRequest): string {
  const { scene, key, text } = request;
  const own = scene?.effect ? `effect ${scene.effect.name}` : key === undefined ? hashJson(text) : `key ${key}`;
  return `${lineOf(request)} ${own}`;
}

function lineOf({ method, url, scene }: AnsweredRequest): string {
  return `${method} ${url} ${scene?.within ?? ''} ${scene?.name ?? ''}`;
}

function judgeCalls(
  clean: Observed,
  faulty: readonly Observed[],
  isRepeatable: (request: AnsweredRequest) => boolean,
): readonly CallVerdict[] {
  const lines = new Map<string, AnsweredRequest>();
  for (const { requests } of [clean, ...faulty]) {
    for (const request of requests)
      if (request.outcome === 'made' && !lines.has(lineOf(request))) lines.set(lineOf(request), request);
  }
  return [...lines].map(([line, sample]) => {
    const madeIn = (run: Observed): readonly AnsweredRequest[] =>
      run.requests.filter((request) => request.outcome === 'made' && lineOf(request) === line);
    const usual = madeIn(clean);
    const usualDeeds = counted(usual);
    const again = faulty.map((run) => {
      const made = madeIn(run);
      const repeated = [...counted(made)].some(([deed, count]) => count > Math.max(1, usualDeeds.get(deed) ?? 0));
      // More than usual, and no two alike: what tells them apart was made up anew.
      return {
        run,
        count: made.length,
        repeated,
        changed: !repeated && usual.length > 0 && made.length > usual.length,
      };
    });
    const bad = again.filter(({ repeated, changed }) => repeated || changed);
    const repeatable = isRepeatable(sample);
    return {
      call: `${sample.method} ${sample.url}`,
      where: placeOf(sample),
      usual: usual.length,
      most: Math.max(usual.length, ...again.map(({ count }) => count)),
      twice: !repeatable && bad.length > 0,
      changed: bad.length > 0 && bad.every(({ changed }) => changed),
      repeatable,
      keyless: sample.scene?.effect !== undefined && sample.key === undefined,
      causes: bad.flatMap(({ run }) => run.fault ?? []),
    };
  });
}

function counted(requests: readonly AnsweredRequest[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const request of requests) counts.set(deedOf(request), (counts.get(deedOf(request)) ?? 0) + 1);
  return counts;
}

function placeOf({ scene }: AnsweredRequest): string {
  switch (scene?.within) {
    case 'commit':
      return `effect ${scene.name} (${scene.effect?.receiver})`;
    case 'read-back':
      return `read-back of ${scene.name}`;
    case 'call':
      return `ctx.call ${scene.name}`;
    default:
      return 'the handler itself';
  }
}

function unreadableEffect(effect: DeclaredEffect, runs: readonly Observed[]): readonly Unreadable[] {
  const { name, receiver, readBack, quiesces } = effect;
  const what = `effect ${name}`;
  if (readBack === 'human') {
    return [
      {
        what,
        problem: 'only a person can tell whether it exists: each takeover in the middle of it asks one',
        remedy:
          "read it back with a function or guarded(url) if the receiver can be asked, or 'provider-replays-key' if it knows the key",
      },
    ];
  }
  if (readBack !== 'function') return [];
  if (receiver === 'plain') {
    if (quiesces) return [];
    return [
      {
        what,
        problem:
          'its receiver is plain and it declares no quiesce, so that "not there" never counts: a takeover between intent and call ends in-doubt',
        remedy:
          "declare receiver: 'guarded' or 'idempotent' if it is one, else quiesce: how long a call can still be on its way",
      },
    ];
  }
  const reads = runs.flatMap(({ requests }) =>
    requests.filter(({ scene }) => scene?.within === 'read-back' && scene.name === name),
  );
  if (receiver === 'guarded' && reads.length > 0 && reads.every(({ headers }) => !headers.has('x-execution-fence'))) {
    return [
      {
        what,
        problem:
          'its read-back does not show the fence to the guarded receiver, so that an older call may still be let in after it said "not there"',
        remedy: 'pass the headers of the read-back on, or use guarded(url)',
      },
    ];
  }
  return [];
}

function unreadableCall({ call, where, repeatable }: CallVerdict): readonly Unreadable[] {
  if (repeatable || where.startsWith('effect')) return [];
  return [
    {
      what: `${call} in ${where}`,
      problem: 'nothing reads back whether it happened, so that a takeover makes it again',
      remedy:
        'make it in ctx.effect; or, if doing it again changes nothing, say "repeatable": true for it in the file of --doubles',
    },
  ];
}
