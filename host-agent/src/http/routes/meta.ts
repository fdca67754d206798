// Liveness, the profiles to boot from, and what the caller may do.
import type { HttpApp } from '../context.ts';
import type { HttpServices, ProfileInfo } from '../services.ts';

export function addMetaRoutes(app: HttpApp, services: HttpServices): void {
  app.get('/healthz', (c) => c.json({ status: 'ok' }));

  app.get('/profiles', async (c) => {
    const profiles = await services.listProfiles();
    const engine = services.engine?.();
    const standard = profiles.find(({ isDefault }) => isDefault);
    return c.json({
      profiles: profiles.map(({ name }) => name),
      ...(standard ? { default: standard.name } : {}),
      details: Object.fromEntries(profiles.map((profile) => [profile.name, toDetailsBody(profile)])),
      ...(engine ? { engine } : {}),
    });
  });

  app.get('/whoami', (c) => c.json({ scoped: false }));
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
