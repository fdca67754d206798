// The version of all that is built here, which only the top of the checkout states.
import about from '../../../package.json' with { type: 'json' };

export const VERSION: string = about.version;
