// Container images, pulled or imported, converted, kept.
import {
  image,
  imageList,
  imagePath,
  imageProgress,
  importQuery,
  pullImageRequest,
} from '../schemas/image.ts';
import { pageQuery } from '../schemas/page.ts';
import { IMAGE } from './examples.ts';
import { json, jsonBody, type Route } from './route.ts';

const OFF = 'images are not enabled on this daemon';
const UNKNOWN = 'there is no such image here';
const AMBIGUOUS = 'the digest prefix fits several images';

const MADE = [
  { status: 201, description: 'the converted image', content: json(image) },
  {
    status: 200,
    description: 'lines of progress, where Accept names them; the last one has the image, or the error',
    content: { 'application/x-ndjson': { kind: 'lines', schema: imageProgress } },
  },
] as const;

export const imageRoutes = {
  listImages: {
    method: 'GET',
    path: '/images',
    tag: 'images',
    summary: 'List the converted images',
    access: 'view',
    description: 'All of it, or with limit a page of it; next_cursor is there when more follows.',
    query: pageQuery,
    answers: [{ status: 200, description: 'the images', content: json(imageList) }],
    errors: { 501: OFF },
    example: { answer: { images: [IMAGE] } },
  },
  pullImage: {
    method: 'POST',
    path: '/images',
    tag: 'images',
    summary: 'Pull an image from a registry and convert it to a bootable root filesystem',
    access: 'images',
    formerly: 'create',
    isExperimental: true,
    body: jsonBody(pullImageRequest),
    answers: MADE,
    errors: {
      400: 'the reference cannot be parsed',
      404: 'pull is never, and the image is not here',
      501: OFF,
      502: 'the registry says no, cannot be reached, or has no image for this platform',
    },
    example: { body: { ref: 'nginx:alpine' }, answer: IMAGE },
  },
  importImage: {
    method: 'POST',
    path: '/images/import',
    tag: 'images',
    summary: 'Convert a saved image archive',
    description: 'The archive is what docker save writes or an OCI layout, plain, gzip or zstd.',
    access: 'images',
    formerly: 'create',
    isExperimental: true,
    query: importQuery,
    body: { kind: 'bytes', contentType: 'application/octet-stream', description: 'the archive' },
    answers: MADE,
    errors: {
      400: 'the archive is damaged, has no such tag, or holds several images and no tag was given',
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
  deleteImage: {
    method: 'DELETE',
    path: '/images/:ref{.+}',
    tag: 'images',
    summary: 'Delete an image',
    description: 'Sandboxes that use it keep running.',
    access: 'images',
    formerly: 'delete',
    params: imagePath,
    answers: [{ status: 204, description: 'it is gone' }],
    errors: { 404: UNKNOWN, 409: AMBIGUOUS, 501: OFF },
    example: { params: { ref: 'nginx:alpine' } },
  },
} as const satisfies Record<string, Route>;
