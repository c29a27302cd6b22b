import type { Seeded } from '../simulation/seeded.ts';

/** The share of calls that never arrive, and of those whose answer does not come back although they were applied. */
const LOST_CALLS = 0.01;
const LOST_ANSWERS = 0.015;

/** A driver over a network that loses something now and then. */
export function unreliable<Driver extends object>(
  driver: Driver,
  methods: readonly (keyof Driver)[],
  chance: Seeded,
): Driver {
  return new Proxy(driver, {
    get(target, name) {
      const found: unknown = Reflect.get(target, name, target);
      if (typeof found !== 'function') return found;
      if (!(methods as readonly PropertyKey[]).includes(name)) return found.bind(target) as unknown;
      return async (...given: unknown[]): Promise<unknown> => {
        if (chance.chance(LOST_CALLS)) throw new Error('lost on its way');
        const answer: unknown = await Reflect.apply(found, target, given);
        if (chance.chance(LOST_ANSWERS)) throw new Error('the answer was lost');
        return answer;
      };
    },
  });
}
