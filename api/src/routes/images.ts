// Container images: pull, import, list, show, delete.
import {
  changeImageRequest,
  image,
  imageList,
  imagePath,
  imageProgress,
  imagesQuery,
  importQuery,
  pullImageRequest,
  pullQuery,
} from '../schemas/image.ts';
import { IMAGE } from './examples.ts';
import { json, jsonBody, KEYED, KEYED_ANSWER, type Route } from './route.ts';

const OFF = 'images are disabled on this daemon';
const UNKNOWN = 'the image is not on this host';
const AMBIGUOUS = 'the digest prefix matches several images';

const MADE = [
  { status: 201, description: 'the converted image', content: json(image) },
  {
    status: 200,
    description:
      'JSON lines with the progress, if Accept names them; the last line holds the image or the error',
    content: { 'application/x-ndjson': { kind: 'lines', schema: imageProgress } },
  },
] as const;

export const imageRoutes = {
  listImages: {
    method: 'GET',
    path: '/images',
    tag: 'images',
    summary: 'List images',
    access: 'view',
    description:
      'Returns the whole list, or one page if limit is set. next_cursor is present if more entries follow.',
    query: imagesQuery,
    answers: [{ status: 200, description: 'the images', content: json(imageList) }],
    errors: { 501: OFF },
    example: { answer: { images: [IMAGE] } },
  },
  pullImage: {
    method: 'POST',
    path: '/images',
    tag: 'images',
    summary: 'Pull an image from a registry and convert it to a root filesystem',
    access: 'images',
    isExperimental: true,
    headers: KEYED,
    query: pullQuery,
    body: jsonBody(pullImageRequest),
    answers: [
      { ...MADE[0], headers: KEYED_ANSWER },
      { ...MADE[1], headers: KEYED_ANSWER },
    ],
    errors: {
      400: 'the reference cannot be parsed',
      404: 'pull is never and the image is not on this host',
      501: OFF,
      502: 'the registry refuses, is unreachable or has no image for this platform',
    },
    example: { body: { ref: 'nginx:alpine' }, answer: IMAGE },
  },
  importImage: {
    method: 'POST',
    path: '/images/import',
    tag: 'images',
    summary: 'Import an image archive and convert it to a root filesystem',
    description:
      'The archive is the output of docker save or an OCI layout, uncompressed or compressed with gzip or zstd.',
    access: 'images',
    isExperimental: true,
    query: importQuery,
    body: { kind: 'bytes', contentType: 'application/octet-stream', description: 'the archive' },
    answers: MADE,
    errors: {
      400: 'the archive is damaged, does not contain the tag, or holds several images and the request names none',
      501: OFF,
      502: 'the conversion failed',
    },
    example: { query: { tag: 'nginx:alpine' }, answer: IMAGE },
  },
  getImage: {
    method: 'GET',
    path: '/images/:ref{.+}',
    tag: 'images',
    summary: 'Show an image',
    access: 'view',
    params: imagePath,
    answers: [{ status: 200, description: 'the image', content: json(image) }],
    errors: { 404: UNKNOWN, 409: AMBIGUOUS, 501: OFF },
    example: { params: { ref: 'nginx:alpine' }, answer: IMAGE },
  },
  changeImage: {
    method: 'PATCH',
    path: '/images/:ref{.+}',
    tag: 'images',
    summary: 'Set and remove labels of an image',
    description: 'All tenants share the images, so the key of a tenant may not change their labels.',
    access: 'images',
    params: imagePath,
    body: jsonBody(changeImageRequest),
    answers: [{ status: 200, description: 'the image', content: json(image) }],
    errors: { 404: UNKNOWN, 409: AMBIGUOUS, 501: OFF },
    example: { params: { ref: 'nginx:alpine' }, body: { user_labels: { stage: 'tested' } }, answer: IMAGE },
  },
  deleteImage: {
    method: 'DELETE',
    path: '/images/:ref{.+}',
    tag: 'images',
    summary: 'Delete an image',
    description:
      'Sandboxes that use the image continue to run. A whole digest deletes the image in the snapshot store, too, if ' +
      'hosts share images, with all names that lead to it; a name deletes that name there.',
    access: 'images',
    params: imagePath,
    answers: [{ status: 204, description: 'the image is deleted' }],
    errors: {
      404: 'the image is neither on this host nor, if hosts share images, in the snapshot store',
      409: AMBIGUOUS,
      501: OFF,
      502: 'the image is not on this host, and the snapshot store does not answer',
    },
    example: { params: { ref: 'nginx:alpine' } },
  },
} as const satisfies Record<string, Route>;
