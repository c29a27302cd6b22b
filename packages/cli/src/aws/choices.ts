/** Texts that a table can be printed as. */
export const FORMATS: readonly string[] = ['cloudformation', 'terraform'];

/** Who needs a policy. */
export const ROLES: readonly string[] = ['worker', 'producer', 'operator', 'guard', 'deployer'];
