{{- define "skitter.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "skitter.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "skitter.labels" -}}
{{ include "skitter.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "skitter.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* The URL of the store, with the file of its secret: a password, or the token of a master. */ -}}
{{- define "skitter.frontier" -}}
{{- $url := .Values.frontier.url -}}
{{- if .Values.frontier.secret.name -}}
{{- $option := regexMatch "^https?://" $url | ternary "token_file" "password_file" -}}
{{ printf "%s%s%s=/etc/skitter/frontier/secret" $url (contains "?" $url | ternary "&" "?") $option }}
{{- else -}}
{{ $url }}
{{- end -}}
{{- end }}

{{- /* What all pods have. Called with root, component, and the template of the container's own fields. */ -}}
{{- define "skitter.podMetadata" -}}
labels:
  {{- include "skitter.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "skitter.podSpec" -}}
{{- with .root.Values -}}
serviceAccountName: {{ include "skitter.fullname" $.root }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .terminationGracePeriodSeconds }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  # Secrets and volumes belong to root and this group.
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with .imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "skitter.container" -}}
{{- with .root.Values -}}
image: {{ include "skitter.image" $.root | quote }}
imagePullPolicy: {{ .image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
workingDir: /project
{{- with .extraEnv }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
resources:
  {{- toYaml $.resources | nindent 2 }}
volumeMounts:
  - { name: project, mountPath: /project }
  - { name: tmp, mountPath: /tmp }
  {{- if .frontier.secret.name }}
  - { name: frontier, mountPath: /etc/skitter/frontier, readOnly: true }
  {{- end }}
  {{- if .secrets }}
  - { name: secrets, mountPath: /etc/skitter/secrets, readOnly: true }
  {{- end }}
  {{- if .spiders.configMap }}
  - { name: spiders, mountPath: /project/spiders, readOnly: true }
  {{- end }}
{{- end }}
{{- end }}

{{- define "skitter.volumes" -}}
{{- with .Values -}}
- name: project
  emptyDir: { sizeLimit: {{ .project.sizeLimit }} }
- name: tmp
  emptyDir: { sizeLimit: {{ .project.sizeLimit }} }
{{- if .frontier.secret.name }}
- name: frontier
  secret:
    secretName: {{ .frontier.secret.name }}
    defaultMode: 0440
    items: [{ key: {{ .frontier.secret.key }}, path: secret }]
{{- end }}
{{- if .secrets }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range .secrets }}
      - secret: { name: {{ . }} }
      {{- end }}
{{- end }}
{{- if .spiders.configMap }}
- name: spiders
  configMap: { name: {{ .spiders.configMap }} }
{{- end }}
{{- end }}
{{- end }}
