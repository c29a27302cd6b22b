import { InvalidArgumentError, Option } from 'commander';
import type { Stage, TaskState } from '@leasehold/core';

const STATES: readonly TaskState[] = ['queued', 'running', 'waiting_human', 'settled', 'dead_lettered', 'cancelled'];
const MOST = 1_000;

/** `--state`, which takes states with dashes too. */
export function stateOption(): Option {
  return new Option('--state <state...>', `only tasks in these states: ${STATES.join(', ')}`).argParser(
    (value: string, before: readonly TaskState[] | undefined) => {
      const state = STATES.find((one) => one === value.replaceAll('-', '_'));
      if (!state) throw new InvalidArgumentError(`Write one of ${STATES.join(', ')}.`);
      return [...(before ?? []), state];
    },
  );
}

const STAGES: readonly Stage[] = ['preflight', 'external_call', 'commit', 'verify', 'settled'];

/** `--stage`, which takes stages with dashes too. */
export function stageOption(): Option {
  return new Option('--stage <stage...>', `only tasks in these stages: ${STAGES.join(', ')}`).argParser(
    (value: string, before: readonly Stage[] | undefined) => {
      const stage = STAGES.find((one) => one === value.replaceAll('-', '_'));
      if (!stage) throw new InvalidArgumentError(`Write one of ${STAGES.join(', ')}.`);
      return [...(before ?? []), stage];
    },
  );
}

/** `--limit`. */
export function limitOption(): Option {
  return new Option('--limit <n>', `how many tasks at most, up to ${MOST}`).default(50).argParser((value: string) => {
    const limit = Number(value);
    if (!Number.isInteger(limit) || limit < 1 || limit > MOST)
      throw new InvalidArgumentError(`Write a whole number from 1 to ${MOST}.`);
    return limit;
  });
}
