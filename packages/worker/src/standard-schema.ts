/** The part of the Standard Schema interface (https://standardschema.dev, v1) that a task's input needs; Zod, Valibot, ArkType and others have it. */
export interface InputSchema<Output> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

/** What a validation came to. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | {
      readonly issues: readonly {
        readonly message: string;
        readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
      }[];
    };

/** The paths at which an input does not fit, without its values. */
export function issuePaths(result: SchemaResult<unknown>): string {
  const paths = (result.issues ?? []).map((issue) =>
    (issue.path ?? []).map((step) => String(typeof step === 'object' ? step.key : step)).join('.'),
  );
  return [...new Set(paths.map((path) => path || '(root)'))].slice(0, 10).join(', ');
}
