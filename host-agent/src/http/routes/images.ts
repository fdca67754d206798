// Images, which this daemon does not have: requests are checked as if it had, and then 501.
import { AppError } from '../../lib/errors.ts';
import type { Handlers } from '../serve-routes.ts';

export function imageHandlers() {
  return {
    listImages: refuse,
    pullImage: refuse,
    importImage: refuse,
    getImage: refuse,
    deleteImage: refuse,
  } satisfies Partial<Handlers>;
}

/** For every operation on images of a daemon that has none. */
export function imagesAreOff(): AppError {
  return new AppError('unsupported', 'image support is not enabled on this daemon; create from a profile');
}

function refuse(): never {
  throw imagesAreOff();
}
