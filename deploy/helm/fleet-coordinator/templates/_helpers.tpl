{{- define "fleet.labels" -}}
app.kubernetes.io/name: fleet-coordinator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "fleet.selector" -}}
app.kubernetes.io/name: fleet-coordinator
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "fleet.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "fleet.environment" -}}
- name: FLEET_CONFIG
  value: /etc/fleet/fleet.yaml
- name: FLEET_DATA_DIR
  value: /var/lib/fleet
- name: FLEET_REDIS_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.redis.existingSecret }}
      key: url
{{- end }}

{{- define "fleet.mounts" -}}
- {name: config, mountPath: /etc/fleet, readOnly: true}
- {name: data, mountPath: /var/lib/fleet}
- {name: tmp, mountPath: /tmp}
{{- if .Values.auth.existingSecret }}
- {name: tokens, mountPath: /etc/fleet-tokens, readOnly: true}
{{- end }}
{{- end }}

{{- define "fleet.volumes" -}}
- name: config
  configMap:
    name: {{ .Release.Name }}-config
# Metrics of the processes of a pod live in memory and go with it.
- name: data
  emptyDir: {medium: Memory, sizeLimit: 64Mi}
- name: tmp
  emptyDir: {}
{{- if .Values.auth.existingSecret }}
- name: tokens
  secret:
    secretName: {{ .Values.auth.existingSecret }}
    defaultMode: 0400
{{- end }}
{{- end }}

{{- define "fleet.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 10001
capabilities:
  drop: [ALL]
{{- end }}
