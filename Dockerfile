# One image for every program of pushpacer; without a command it is a worker.
FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json tsconfig.build.json ./
COPY src src
COPY sandbox sandbox
COPY api api
COPY console console
COPY workers workers
COPY scripts scripts
COPY tools tools
RUN npm run build && npm prune --omit=dev

FROM node:24-slim
WORKDIR /app
ENV NODE_ENV=production METRICS_HOST=0.0.0.0 METRICS_PORT=9464
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
# A named volume takes the owner of the folder that it covers: the sandbox writes its keys there, and `token` the API's tokens.
RUN mkdir /sandbox /tokens && chown node:node /sandbox /tokens
USER node
EXPOSE 9464
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["node", "-e", "const port = process.env.METRICS_PORT; if (port !== 'off' && port !== '0') fetch(`http://127.0.0.1:${port}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/workers/notifications.js"]
