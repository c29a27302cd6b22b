/** A driver with some of its methods replaced. Everything else is the driver's own, also what changes after `open`. */
export function overriding<Driver extends object>(driver: Driver, own: Partial<Driver>): Driver {
  return new Proxy(driver, {
    get(target, name) {
      const source = Object.hasOwn(own, name) ? own : target;
      const found: unknown = Reflect.get(source, name, source);
      return typeof found === 'function' ? (found.bind(source) as unknown) : found;
    },
  });
}
