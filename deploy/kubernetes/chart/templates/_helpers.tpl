{{- define "pushpacer.name" -}}
{{- $name := .Values.fullnameOverride | default (contains "pushpacer" .Release.Name | ternary .Release.Name (printf "%s-pushpacer" .Release.Name)) -}}
{{- $name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "pushpacer.selector" -}}
app.kubernetes.io/name: pushpacer
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pushpacer.labels" -}}
{{ include "pushpacer.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* SHUTDOWN_GRACE in whole seconds, and 20 more: the worker needs some to give back what is left. */}}
{{- define "pushpacer.terminationSeconds" -}}
{{- $grace := .Values.env.SHUTDOWN_GRACE -}}
{{- $number := regexFind "^[0-9]+" $grace | int -}}
{{- $unit := regexReplaceAll "^[0-9]+" $grace "" -}}
{{- $seconds := eq $unit "ms" | ternary (div (add $number 999) 1000) (mul $number (get (dict "" 1 "s" 1 "m" 60 "h" 3600 "d" 86400) $unit | default 1)) -}}
{{- add $seconds 20 -}}
{{- end }}

{{/* What the pods of both Deployments have in common. */}}
{{- define "pushpacer.pod" -}}
# Nothing here asks Kubernetes for anything.
serviceAccountName: {{ .Values.serviceAccountName }}
automountServiceAccountToken: false
# Without it a Service named `metrics` would set METRICS_PORT to a URL.
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  # The image's user `node`. The group may read the mounted Secrets.
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "pushpacer.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "pushpacer.envFrom" -}}
{{- with .Values.envSecret }}
envFrom:
  - secretRef:
      name: {{ . }}
{{- end }}
{{- end }}

{{/* A list of variables from a dict of texts, in the order of their names. */}}
{{- define "pushpacer.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
