export { buildClient, type AwsConnection, type ClientSettings } from './build-client.ts';
export { COMMON_ERRORS, errorField, isOffTheClock, namedRegion } from './sdk-errors.ts';
