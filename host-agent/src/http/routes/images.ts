// Images, which this daemon does not have: requests are checked as if it had, and then 501.
import { z } from 'zod';
import type { HttpApp, HttpContext } from '../context.ts';
import { checkImageRef, imagesAreOff } from '../input/image-ref.ts';
import { decodeText, readQuery } from '../input/query.ts';
import { readFields } from '../input/read-fields.ts';
import type { HttpServices } from '../services.ts';

const pullSchema = z.object({}, { error: 'must be a JSON object' });

export function addImageRoutes(app: HttpApp, { bodyIdleMs }: HttpServices): void {
  app.get('/images', () => {
    throw imagesAreOff();
  });

  app.post('/images', async (c) => {
    await readFields(c, pullSchema, bodyIdleMs);
    throw imagesAreOff();
  });

  app.post('/images/import', (c) => {
    readQuery(c, 'tag');
    throw imagesAreOff();
  });

  // A reference has slashes of its own, encoded or not.
  app.get('/images/:ref{.+}', refuse);
  app.delete('/images/:ref{.+}', refuse);
}

function refuse(c: HttpContext): never {
  const { pathname } = new URL(c.req.url);
  checkImageRef(decodeText(pathname.slice('/images/'.length), 'image reference'));
  throw imagesAreOff();
}
