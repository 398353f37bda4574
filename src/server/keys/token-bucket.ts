/** A rate a minute that may be used in bursts of up to a minute's worth: the usual token bucket. */
export class TokenBucket {
  private level: number;
  private filled: number;

  /** @param now seconds, on the clock of every later call */
  constructor(
    readonly perMinute: number,
    now: number,
  ) {
    this.level = perMinute;
    this.filled = now;
  }

  /** What is left; below zero where more was taken than there was. */
  left(now: number): number {
    this.level = Math.min(this.perMinute, this.level + ((now - this.filled) * this.perMinute) / 60);
    this.filled = now;
    return this.level;
  }

  /** Seconds until `amount` is left; 0 if it is. */
  wait(amount: number, now: number): number {
    return Math.max(0, ((amount - this.left(now)) * 60) / this.perMinute);
  }

  take(amount: number, now: number): void {
    this.level = this.left(now) - amount;
  }
}
