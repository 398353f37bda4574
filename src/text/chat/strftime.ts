/** Python's strftime in the C locale and local time, for chat templates that print today's date. */

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];

const DAY_MS = 86_400_000;

/** Directives that stand for a text or for other directives. */
const TEXTS: Readonly<Record<string, (date: Date) => string>> = {
  a: (date) => DAYS[date.getDay()]!.slice(0, 3),
  A: (date) => DAYS[date.getDay()]!,
  b: (date) => MONTHS[date.getMonth()]!.slice(0, 3),
  h: (date) => MONTHS[date.getMonth()]!.slice(0, 3),
  B: (date) => MONTHS[date.getMonth()]!,
  p: (date) => (date.getHours() < 12 ? 'AM' : 'PM'),
  P: (date) => (date.getHours() < 12 ? 'am' : 'pm'),
  z: (date) => offset(date),
  Z: (date) => zoneName(date),
  c: (date) => strftime(date, '%a %b %e %H:%M:%S %Y'),
  D: (date) => strftime(date, '%m/%d/%y'),
  x: (date) => strftime(date, '%m/%d/%y'),
  F: (date) => strftime(date, '%Y-%m-%d'),
  T: (date) => strftime(date, '%H:%M:%S'),
  X: (date) => strftime(date, '%H:%M:%S'),
  R: (date) => strftime(date, '%H:%M'),
  r: (date) => strftime(date, '%I:%M:%S %p'),
  n: () => '\n',
  t: () => '\t',
  '%': () => '%',
};

/** Directives that stand for a number, with its width and what fills it up. */
const NUMBERS: Readonly<Record<string, readonly [(date: Date) => number, number, string?]>> = {
  d: [(date) => date.getDate(), 2],
  e: [(date) => date.getDate(), 2, ' '],
  m: [(date) => date.getMonth() + 1, 2],
  y: [(date) => date.getFullYear() % 100, 2],
  Y: [(date) => date.getFullYear(), 1],
  C: [(date) => Math.floor(date.getFullYear() / 100), 2],
  H: [(date) => date.getHours(), 2],
  k: [(date) => date.getHours(), 2, ' '],
  I: [(date) => date.getHours() % 12 || 12, 2],
  l: [(date) => date.getHours() % 12 || 12, 2, ' '],
  M: [(date) => date.getMinutes(), 2],
  S: [(date) => date.getSeconds(), 2],
  f: [(date) => date.getMilliseconds() * 1000, 6],
  s: [(date) => Math.floor(date.getTime() / 1000), 1],
  j: [(date) => dayOfYear(date), 3],
  w: [(date) => date.getDay(), 1],
  u: [(date) => date.getDay() || 7, 1],
  U: [(date) => Math.floor((dayOfYear(date) + 6 - date.getDay()) / 7), 2],
  W: [(date) => Math.floor((dayOfYear(date) + 6 - ((date.getDay() + 6) % 7)) / 7), 2],
  V: [(date) => isoWeek(date).week, 2],
  G: [(date) => isoWeek(date).year, 1],
};

/** Unknown directives stay as they are, as in glibc. `%-d` and the like leave the filling out. */
export function strftime(date: Date, format: string): string {
  return format.replace(/%(-?)([a-zA-Z%])/g, (directive: string, dash: string, letter: string) => {
    const text = TEXTS[letter];
    if (text !== undefined) return text(date);
    const number = NUMBERS[letter];
    if (number === undefined) return directive;
    const [value, width, fill = '0'] = number;
    return dash === '' ? String(value(date)).padStart(width, fill) : String(value(date));
  });
}

function dayOfYear(date: Date): number {
  const today = Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
  return (today - Date.UTC(date.getFullYear(), 0, 1)) / DAY_MS + 1;
}

/** ISO 8601: week 1 has the year's first Thursday. */
function isoWeek(date: Date): { readonly year: number; readonly week: number } {
  const thursday = new Date(date.getFullYear(), date.getMonth(), date.getDate() + 4 - (date.getDay() || 7));
  return { year: thursday.getFullYear(), week: Math.ceil(dayOfYear(thursday) / 7) };
}

function offset(date: Date): string {
  const minutes = -date.getTimezoneOffset();
  const pad = (value: number): string => String(value).padStart(2, '0');
  return `${minutes < 0 ? '-' : '+'}${pad(Math.floor(Math.abs(minutes) / 60))}${pad(Math.abs(minutes) % 60)}`;
}

function zoneName(date: Date): string {
  const parts = new Intl.DateTimeFormat('en-US', { timeZoneName: 'short' }).formatToParts(date);
  return parts.find((part) => part.type === 'timeZoneName')?.value ?? '';
}
