{{- define "fleet.labels" -}}
app.kubernetes.io/name: fleet-coordinator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "fleet.selector" -}}
app.kubernetes.io/name: fleet-coordinator
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The label `fleet` of metrics and alerts. */}}
{{- define "fleet.name" -}}
{{ .Release.Namespace }}/{{ .Release.Name }}
{{- end }}

{{- define "fleet.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The names of the Service, and those of a port that is forwarded. */}}
{{- define "fleet.hosts" -}}
{{- $name := .Release.Name }}
{{- $space := printf "%s.%s" $name .Release.Namespace }}
{{- concat (list "localhost" "127.0.0.1" $name $space (printf "%s.svc" $space) (printf "%s.svc.cluster.local" $space)) .Values.allowedHosts | toJson }}
{{- end }}

{{/* Whether callers need a token. */}}
{{- define "fleet.authMode" -}}
{{- dig "auth" "mode" (empty .Values.auth.existingSecret | ternary "auto" "required") .Values.config }}
{{- end }}

{{/* fleet.yaml: what the values say, over what the chart sets. */}}
{{- define "fleet.settings" -}}
{{- $instead := dict "frontends" "frontend.processes" "drain_seconds" "drainSeconds" "allowed_hosts" "allowedHosts" "redis_url" "redis.existingSecret" }}
{{- range $key := list "frontends" "drain_seconds" "allowed_hosts" "redis_url" "host" "port" "admin_host" "admin_port" "worker_port" "data_dir" }}
{{- if hasKey $.Values.config $key }}
{{- fail (printf "config.%s is set by the chart%s" $key (get $instead $key | empty | ternary "" (printf ": use %s" (get $instead $key)))) }}
{{- end }}
{{- end }}
{{- range $setting := list "signing.keys" "steps.queue_url" }}
{{- $path := splitList "." $setting }}
{{- if dig (first $path) (last $path) "" $.Values.config }}
{{- fail (printf "config.%s may hold secrets, and everybody may read a ConfigMap: set FLEET_%s in extraEnv, from a Secret" $setting ($setting | replace "." "_" | upper)) }}
{{- end }}
{{- end }}
{{- $own := dict "host" "0.0.0.0" "port" 8420 "admin_port" 8421 "worker_port" 8421 "frontends" .Values.frontend.processes "drain_seconds" .Values.drainSeconds "log_format" "json" "allowed_hosts" (include "fleet.hosts" . | fromJsonArray) }}
{{- if .Values.auth.existingSecret }}
{{- $_ := set $own "auth" (dict "mode" "required" "tokens" "/etc/fleet-tokens/tokens.yaml") }}
{{- end }}
{{- if ne (include "fleet.authMode" .) "required" }}
{{- $_ := set $own "insecure_no_auth" true }}
{{- end }}
{{- mergeOverwrite $own (deepCopy .Values.config) | toYaml }}
{{- end }}

{{/* How many pods may be away; a budget has one of the two. */}}
{{- define "fleet.budget" -}}
{{- $key := hasKey . "minAvailable" | ternary "minAvailable" "maxUnavailable" }}
{{- pick . $key | toYaml }}
{{- end }}

{{/* What all pods have in common; front-ends and workers add their container. */}}
{{- define "fleet.pod" -}}
# Variables that Kubernetes generates for Services (FLEET_PORT=tcp://...) would be taken for settings.
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "fleet.selector" . | nindent 8 }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: config
    configMap:
      name: {{ .root.Release.Name }}-config
  # Metrics of the processes of a pod live in memory and go with it.
  - name: data
    emptyDir: {medium: Memory, sizeLimit: 64Mi}
  - name: tmp
    emptyDir: {}
  {{- if .root.Values.auth.existingSecret }}
  - name: tokens
    secret:
      secretName: {{ .root.Values.auth.existingSecret }}
      # 0400
      defaultMode: 256
  {{- end }}
  {{- with .root.Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "fleet.container" -}}
image: {{ include "fleet.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - name: FLEET_CONFIG
    value: /etc/fleet/fleet.yaml
  - name: FLEET_DATA_DIR
    value: /var/lib/fleet
  - name: FLEET_REDIS_URL
    valueFrom:
      secretKeyRef:
        name: {{ .Values.redis.existingSecret }}
        key: {{ .Values.redis.urlKey }}
  {{- with .Values.redis.passwordKey }}
  - name: FLEET_REDIS_PASSWORD
    valueFrom:
      secretKeyRef:
        name: {{ $.Values.redis.existingSecret }}
        key: {{ . }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - {name: config, mountPath: /etc/fleet, readOnly: true}
  - {name: data, mountPath: /var/lib/fleet}
  - {name: tmp, mountPath: /tmp}
  {{- if .Values.auth.existingSecret }}
  - {name: tokens, mountPath: /etc/fleet-tokens, readOnly: true}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
# On a separate port, which accepts any Host of a kubelet. Liveness depends on nothing outside the process: a failing
# Redis must not restart the fleet.
startupProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 2
  failureThreshold: 45
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
  timeoutSeconds: 3
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 5
  timeoutSeconds: 3
{{- end }}
