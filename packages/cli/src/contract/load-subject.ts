import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { BrokerCapabilities, LedgerCapabilities } from '@leasehold/core';
import type { BrokerHarness, GuardHarness, LedgerHarness, PairCapabilities, PairHarness } from '@leasehold/contract';
import { CliFailure } from '../failure.ts';

/** What a module under test exports: a harness per kind of driver it has, and what each declares. */
export interface Subject {
  readonly broker?: { readonly capabilities: BrokerCapabilities; harness(): BrokerHarness | Promise<BrokerHarness> };
  readonly ledger?: { readonly capabilities: LedgerCapabilities; harness(): LedgerHarness | Promise<LedgerHarness> };
  readonly guard?: { harness(): GuardHarness | Promise<GuardHarness> };
  readonly pair?: { readonly capabilities: PairCapabilities; harness(): PairHarness | Promise<PairHarness> };
}

const SHAPE =
  'export broker = { capabilities, harness }, ledger = { capabilities, harness }, pair = { capabilities: { broker, ledger }, harness } or guard = { harness }, where harness() makes a harness on a new, empty store';

/** Imports a module that names drivers to test. */
export async function loadSubject(file: string): Promise<Subject> {
  const path = resolve(file);
  if (!existsSync(path)) throw new CliFailure(2, `--driver ${file} does not exist: give the path of a module.`);
  let module: Record<string, unknown>;
  try {
    module = (await import(pathToFileURL(path).href)) as Record<string, unknown>;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new CliFailure(2, `--driver ${file} cannot be imported: ${why}`, { cause });
  }
  const exported =
    typeof module['default'] === 'object' && module['default'] !== null ? { ...module['default'], ...module } : module;
  const found = exported as Record<string, { capabilities?: unknown; harness?: unknown } | undefined>;
  const subject: Record<string, unknown> = {};
  for (const kind of ['broker', 'ledger', 'guard', 'pair'] as const) {
    const given = found[kind];
    if (given === undefined) continue;
    if (typeof given.harness !== 'function')
      throw new CliFailure(2, `--driver ${file}: ${kind}.harness is not a function: ${SHAPE}.`);
    if (kind !== 'guard' && typeof given.capabilities !== 'object') {
      throw new CliFailure(2, `--driver ${file}: ${kind}.capabilities is missing: ${SHAPE}.`);
    }
    subject[kind] = given;
  }
  if (Object.keys(subject).length === 0) throw new CliFailure(2, `--driver ${file} names no driver: ${SHAPE}.`);
  return subject;
}
