import type { Place, Profile, Stores } from './place.ts';
import { openSqlite, prepareSqlite } from './sqlite-profile.ts';

/** The stores on which the demo runs, by name. Adapters other than SQLite's are loaded when they are asked for. */
export const PROFILES: { readonly [Name in Place['profile']]: Profile<Extract<Place, { profile: Name }>> } = {
  sqlite: { lease: '3s', limitMs: 58_000, lookEveryMs: 150, prepare: prepareSqlite, open: openSqlite },
  aws: {
    // DynamoDB tells the time to the second: a lease has to be longer than that can err.
    lease: '7s',
    limitMs: 150_000,
    lookEveryMs: 500,
    prepare: async (ask) => (await import('./aws-ground.ts')).prepareAws(ask),
    open: async (place) => (await import('./aws-stores.ts')).openAws(place),
  },
};

/** The name of a profile. */
export type ProfileName = Place['profile'];

/** Opens queue and ledger as a profile says. */
export function openStores(place: Place): Promise<Stores> {
  return place.profile === 'sqlite' ? PROFILES.sqlite.open(place) : PROFILES.aws.open(place);
}
