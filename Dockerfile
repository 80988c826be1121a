# One image for every program of pushpacer; without a command it is a worker.
FROM node:24-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Node needs neither types nor source maps nor pages. Licences stay. The optional ones are firebase-admin's clients of
# Firestore and Storage, 20 MB that nothing here uses, and a faster way to decode what BullMQ encodes alone.
RUN npm ci --omit=dev --omit=optional && find node_modules -type f \
  \( -name '*.map' -o -name '*.[cm]ts' -o -name '*.ts' -o -name '*.tsbuildinfo' -o -iname 'readme*' -o -iname 'changelog*' \) -delete

FROM packages AS build
RUN npm ci
COPY tsconfig.json tsconfig.build.json ./
COPY src src
COPY sandbox sandbox
COPY api api
COPY console console
COPY workers workers
COPY scripts scripts
COPY demo demo
COPY tools tools
RUN npm run build && find dist -type f \( -name '*.map' -o -name '*.d.ts' \) -delete

FROM node:24-slim
WORKDIR /app
ENV NODE_ENV=production METRICS_HOST=0.0.0.0 METRICS_PORT=9464
# The packages are a layer of their own: another version of pushpacer with the same ones is a few megabytes.
COPY --from=packages /app/package.json ./
COPY --from=packages /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY examples/school-morning.* examples/
# A named volume takes the owner of the folder that it covers: the sandbox writes its keys there, and `token` the API's tokens.
RUN mkdir /sandbox /tokens && chown node:node /sandbox /tokens
USER node
EXPOSE 9464
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["node", "-e", "const port = process.env.METRICS_PORT; if (port !== 'off' && port !== '0') fetch(`http://127.0.0.1:${port}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/workers/notifications.js"]
