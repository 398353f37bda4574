/** Levels of the log, the chattiest first; apart from the logger so that the command line need not load it. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];
