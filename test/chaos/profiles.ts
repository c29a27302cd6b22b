import type { DeadLetter, LedgerDriver } from '@leasehold/core';
import type { Connection } from './drivers.ts';
import type { Child, Fleet } from './fleet.ts';
import { aws } from './profile-aws.ts';
import { local } from './profile-local.ts';

/** Broker, ledger and guard store of one run. */
export interface Backend {
  /** The servers' ports, by the name of the link that leads there. */
  readonly ports: Readonly<Record<string, number>>;
  /** How to get at them, with the port that a process is to use for each link. */
  connection(ports: Readonly<Record<string, number>>): Connection;
  /** The servers, where they are a process of their own. */
  readonly servers?: Child;
  /** Whether a process that stands still just now leaves the others at work: an embedded store has one writer at a time. */
  mayStop(): boolean;
  /** Past every network, for the audit. */
  readonly ledger: LedgerDriver;
  /** Messages that are not done with, held ones included. */
  left(): Promise<number>;
  deadLetters(): Promise<readonly DeadLetter[]>;
  close(): Promise<void>;
}

/** A set of backends that a run can be made on. */
export interface Profile {
  readonly leaseMs: number;
  /** How far the ledger's estimate of its clock may be off, in milliseconds. */
  readonly clockErrorMs: number;
  /** How long a message may take to come back once its lease has ended. */
  readonly brokerDelayMs: number;
  /** What lies behind a network, by the place that looks at it, besides the receiver. */
  readonly links: Readonly<Record<'worker' | 'receiver' | 'producer', readonly string[]>>;
  readonly hasServers: boolean;
  open(directory: string, fleet: Fleet): Promise<Backend>;
}

/** The profiles by name. */
export const PROFILES: Readonly<Record<string, Profile>> = { local, aws };
