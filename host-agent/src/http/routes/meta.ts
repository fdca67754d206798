// Liveness, the profiles to boot from, and what the caller may do.
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices, ProfileInfo } from '../services.ts';

export function metaHandlers(services: HttpServices) {
  return {
    health: () => ({ status: 'ok' }),

    listProfiles: async () => {
      const profiles = await services.listProfiles();
      const engine = services.engine?.();
      const standard = profiles.find(({ isDefault }) => isDefault);
      return {
        profiles: profiles.map(({ name }) => name),
        ...(standard ? { default: standard.name } : {}),
        details: Object.fromEntries(profiles.map((profile) => [profile.name, toDetailsBody(profile)])),
        ...(engine ? { engine } : {}),
      };
    },

    whoami: () => ({ scoped: false }),
  } satisfies Partial<Handlers>;
}

function toDetailsBody(profile: ProfileInfo) {
  return {
    digest: profile.digest,
    size_bytes: profile.sizeBytes,
    workdir: profile.workdir,
    env: profile.env,
    packages: profile.packages,
  };
}
